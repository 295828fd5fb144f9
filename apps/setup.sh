#!/bin/bash
# Installs the Debian packages that laconic is built with, as far as they are missing. Both README commands run this.
#   bash apps/setup.sh           say what is missing, install it, or print the line that does
set -u

required="g++ meson ninja-build pkg-config python3 libdnnl-dev libopenmpi-dev openmpi-bin libgtest-dev libgmock-dev
          libcli11-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libstb-dev"
# Real images for the first run, without which it trains on synthetic ones; a faster decoder of JPEG; images in tar and
# zip; codecs and a yardstick for them.
nice="dataset-fashion-mnist libjpeg62-turbo-dev libarchive-dev libsnappy-dev liblz4-dev libzfp-dev libzstd-dev"

missing() {   # those of the packages named that are not installed
  local p
  for p in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || printf '%s ' "$p"
  done
}

if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian, so the packages cannot be checked here. laconic needs what these Debian packages hold:" \
    $required
  exit 0
fi

need=$(missing $required) want=$(missing $nice)
[ -z "$need$want" ] && exit 0

if [ "$(id -u)" = 0 ]; then sudo=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo="sudo"
else
  if [ -n "$need" ]; then
    echo "laconic needs some packages. Please run this line, then the same command again:"
    echo "  sudo apt-get update && sudo apt-get install --no-install-recommends $need$want"
    exit 1
  fi
  echo "(For real images and all codecs: sudo apt-get install $want)"
  exit 0
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
apt() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1 </dev/null; }
install() { apt install --no-install-recommends "$@"; }
refreshed=no
refresh() { [ $refreshed = yes ] || { refreshed=yes; echo "Refreshing the list of packages ..."; apt update; }; }
known() { apt-cache show "$@" >/dev/null 2>&1; }

if [ -n "$need" ]; then
  echo "Installing" $need "..."
  known $need || refresh
  if ! install $need && ! { refresh; install $need; }; then
    tail -n 20 "$log" >&2
    echo "The packages could not be installed; apt-get says why above. The line was:" >&2
    echo "  apt-get install --no-install-recommends $need" >&2
    exit 1
  fi
fi
if [ -n "$want" ]; then
  echo "Installing" $want "..."
  known $want || refresh
  install $want || { refresh; install $want; } || echo "Could not get" $want "(no matter: synthetic images stand in, stb_image decodes JPEG, archives are to be unpacked, and codecs that are not there are left out)."
fi
exit 0
