# What scripts say while something takes long; to be sourced. It goes to where standard output went then: a terminal has
# one line, which is redrawn; elsewhere it is a line every 20 s.
#   build FOLDER LOG TARGET...    builds with ninja, its output behind what LOG has; returns its exit status
#   beside WORDS COMMAND...       runs a command, and says meanwhile for how long it has run; returns its exit status
exec 3>&1
if [ -t 3 ]; then period=1; else period=20; fi
next=0   # in seconds of this shell: when there is something to be said
say() {
  ((SECONDS >= next)) || return 0
  if [ -t 3 ]; then printf '\r\033[K%s' "$*"; else echo "$*"; fi >&3
  next=$((SECONDS + period))
}
said() { [ ! -t 3 ] || printf '\r\033[K' >&3; }   # what was said is over

build() {
  local folder=$1 log=$2 begin=$SECONDS line='' part='' status files=0 all=0 left
  shift 2
  next=$((begin + period))
  while true; do
    IFS= read -r -t 1 part
    status=$?
    line+=$part
    ((status == 0 || status > 128)) || break   # it has ended
    if ((status == 0)); then
      echo "$line" >>"$log"
      [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] && files=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
      line=''
    fi
    left=$((files > 0 ? (SECONDS - begin) * (all - files) / files : 0))
    if ((all == 0)); then say "Building, $((SECONDS - begin)) s so far"
    elif ((files < 10)); then say "Building: $files of $all files, $((SECONDS - begin)) s so far"
    else say "Building: $files of $all files, about $((left / 60)) min $(printf %02d $((left % 60))) s left"; fi
  done < <(NINJA_STATUS='[%f/%t] ' ninja -C "$folder" "$@" 2>&1 3>&-)
  wait $!
  status=$?
  said
  return $status
}

beside() {
  local words=$1 begin=$SECONDS status
  shift
  next=$((begin + period))
  # It ends with this shell, however that ends: an interrupt does not reach what runs in the background.
  (while kill -0 $$ 2>/dev/null; do sleep 1; say "$words, $((SECONDS - begin)) s so far"; done) &
  "$@" 3>&-
  status=$?
  kill $! && wait $! 2>/dev/null
  said
  return $status
}
