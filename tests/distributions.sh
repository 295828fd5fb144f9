#!/bin/bash
# Whether the README's two commands are enough: runs both in bare systems, with nothing prepared, and prints one line for
# each system. Needs root, mmdebstrap (Debian's package) and a mirror of Debian; takes about a quarter of an hour each.
#   bash tests/distributions.sh                     bookworm trixie testing clang arm64
#   bash tests/distributions.sh trixie clang        these alone
# bookworm, trixie, testing: Debian 12, Debian 13, and what the next one will be.
# clang: Debian 13, everything compiled by its clang, each source alone (so that none lives by another's includes).
# arm64: Debian 13, cross-compiled for 64-bit ARM; LeNet then trains under qemu, beside the same on this machine.
# The sources are those of the working tree. WORK=dir keeps the systems and logs there instead of a new folder in /tmp.
set -u
cd "$(dirname "$0")/.." || exit 1
[ "$(id -u)" = 0 ] || { echo "This needs root: it makes systems to be root in." >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is missing (Debian: apt-get install mmdebstrap)." >&2; exit 1; }
work=${WORK:-$(mktemp -d /tmp/laconic-distributions.XXXXXX)}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1

inside() {   # system, command: runs it there, as root, with that system's files and environment alone
  unshare --mount --propagation private bash -c '
    mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
      mount --rbind /sys "$0/sys" && mount -t tmpfs tmp "$0/tmp" || exit 1
    cp /etc/resolv.conf "$0/etc/" 2>/dev/null
    exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 bash -c "$1"
  ' "$work/$1" "$2" </dev/null
}

make_system() {   # system, release
  rm -rf "${work:?}/$1"
  # A mirror may be behind: what its lists are valid for is no matter here.
  mmdebstrap --variant=minbase --include=ca-certificates --aptopt='Acquire::Check-Valid-Until "false"' "$2" \
    "$work/$1" >"$work/$1.txt" 2>&1 || return
  mkdir "$work/$1/laconic" &&
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - --ignore-failed-read 2>/dev/null |
      tar -x -C "$work/$1/laconic"
}

versions() {   # system, compiler
  inside "$1" "$2 --version | sed -n '1s/.*[ (]\([a-z+]*\).* \([0-9][0-9.]*\).*/\2/p' | sed 's/^/$2 /'
    dpkg-query -W -f 'oneDNN \${Version}\n' libdnnl-dev; dpkg-query -W -f 'Open MPI \${Version}\n' openmpi-bin
    dpkg-query -W -f 'meson \${Version}\n' meson" 2>/dev/null | sed 's/[+-][^ ]*$//' | paste -sd, | sed 's/,/, /g'
}
minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

failed=0
say() {   # system, result
  echo "$1: $2"
  case $2 in *" 0 failed"* | *"agree"*) ;; *) failed=1; echo "  see $work/$1.txt" ;; esac
}

native() {   # release
  local begin first second
  make_system "$1" "$1" || { say "$1" "the system could not be made"; return; }
  begin=$SECONDS
  inside "$1" 'cd /laconic && bash apps/quickstart.sh' >>"$work/$1.txt" 2>&1 ||
    { say "$1" "the first command failed"; return; }
  first=$((SECONDS - begin)) begin=$SECONDS
  inside "$1" 'cd /laconic && bash tests/run.sh' >>"$work/$1.txt" 2>&1
  second=$((SECONDS - begin))
  say "$1" "$(tail -n 1 "$work/$1.txt") (first command $(minutes $first), second $(minutes $second); $(versions "$1" g++))"
}

clang() {
  local begin=$SECONDS
  make_system clang trixie || { say clang "the system could not be made"; return; }
  inside clang 'apt-get -q -y update && apt-get -q -y install --no-install-recommends clang libomp-dev &&
    cd /laconic && CXX=clang++ SETUP_ARGS="-Dunity=off -Dwerror=true" bash tests/run.sh' >>"$work/clang.txt" 2>&1
  say clang "$(tail -n 1 "$work/clang.txt") ($(minutes $((SECONDS - begin))); $(versions clang clang++))"
}

arm64() {
  make_system arm64 trixie || { say arm64 "the system could not be made"; return; }
  cat >"$work/arm64/laconic.cross" <<'CROSS'
[binaries]
cpp = 'aarch64-linux-gnu-g++'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkg-config = 'aarch64-linux-gnu-pkg-config'
exe_wrapper = 'qemu-aarch64'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
CROSS
  # Twenty steps of LeNet here and there: losses that agree to a hundred-thousandth.
  inside arm64 'set -e
    dpkg --add-architecture arm64 && apt-get -q -y update
    apt-get -q -y install --no-install-recommends crossbuild-essential-arm64 qemu-user meson ninja-build python3 \
      pkg-config:arm64 libdnnl-dev:arm64 libgtest-dev:arm64 libgmock-dev:arm64 libcli11-dev libfmt-dev:arm64 \
      nlohmann-json3-dev zlib1g-dev:arm64 libstb-dev:arm64 libjpeg62-turbo-dev:arm64 \
      libarchive-dev:arm64
    cd /laconic
    meson setup build-arm64 --cross-file /laconic.cross -Dmpi=disabled
    ninja -C build-arm64 apps/mnist
    qemu-aarch64 build-arm64/apps/mnist --model lenet --data synthetic:640,32 --batch 32 --threads 1 --steps 20 --quiet \
      --log /arm64.jsonl' >>"$work/arm64.txt" 2>&1 || { say arm64 "it could not be built or run"; return; }
  { bash apps/setup.sh && { [ -f build/build.ninja ] || meson setup build; } && ninja -C build apps/mnist &&
    build/apps/mnist --model lenet --data synthetic:640,32 --batch 32 --threads 1 --steps 20 --quiet \
      --log "$work/here.jsonl"; } >>"$work/arm64.txt" 2>&1 || { say arm64 "mnist could not be built here"; return; }
  say arm64 "$(python3 - "$work/here.jsonl" "$work/arm64/arm64.jsonl" <<'PYTHON'
import json
import sys

losses = [[step["loss"] for step in map(json.loads, open(path)) if "loss" in step] for path in sys.argv[1:]]
apart = max(abs(a - b) / abs(a) for a, b in zip(*losses))
verdict = "agree" if len(losses[0]) == len(losses[1]) == 20 and apart <= 1e-5 else "differ"
print(f"20 losses of LeNet under qemu and here {verdict}: {losses[0][0]:.5f} to {losses[0][-1]:.5f}, apart {apart:.1e}")
PYTHON
)"
}

[ $# -gt 0 ] || set -- bookworm trixie testing clang arm64
for system in "$@"; do
  case $system in
    bookworm | trixie | testing) native "$system" ;;
    clang | arm64) "$system" ;;
    *) echo "There is no system '$system': bookworm, trixie, testing, clang, arm64." >&2; exit 2 ;;
  esac
done
[ -n "${WORK:-}" ] || [ $failed = 1 ] || rm -rf "$work"
exit $failed
