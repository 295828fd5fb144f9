# Completes what laconic's programs take, for bash and its like: tools, options, names that an option may have, files.
# All of it comes from their own --help, so that a program of one's own has it too: complete -o default -F _laconic own

# What may follow: _laconic_words HELP OPTION. Without an option all options, or the names of tools; with one its names,
# @files where a file may stand beside them, @models where it takes models of the zoo.
_laconic_words() {
  printf '%s\n' "$1" | awk -v option="$2" '
    function tell(words) {
      if (words ~ /^[A-Za-z0-9.:+^_-]+(, ?[A-Za-z0-9.:+^_-]+)*,?$/) { gsub(/, ?/, "\n", words); print words }
    }
    /^Usage: / { tools = / (NAME|TOOL) \.\.\./ }
    /^[^ ]/ { here = 0 }
    option == "" && tools && /^  [a-z]/ { print $1 }
    /^  (-[a-z],)?--/ {
      name = $1; sub(/.*--/, "--", name)
      if (option == "") print name
      here = name == option
      if (!here) next
      if (/ of the zoo/) print "@models"
      count = $2 ~ /^[A-Za-z0-9]+(\|[A-Za-z0-9]+)+$/ ? split($2, choices, "|") : 0
      for (i = 1; i <= count; ++i) print choices[i] ~ /^[A-Z]+$/ ? "@files" : choices[i]
      if ($2 !~ /^NAME/) { here = 0; next }
      sub(/^ *[^ ]+ [^ ]+ +/, "")
    }
    here {
      text = $0
      sub(/^ +/, "", text)
      if (text ~ /^[a-z0-9:-][^ ]*  +[^ ]/) { sub(/ .*/, "", text); print text; next }  # a name, and what it is
      sub(/ \[[^\]]*\]$/, "", text); sub(/;.*/, "", text); sub(/.*: /, "", text)
      tell(text)
    }' | sed -E 's/([:^(-])[A-Z(].*/\1/' | LC_ALL=C sort -u
}

_laconic() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option= word words found help
  # Bash splits --sync=ring into three words.
  if [[ $current == = ]]; then
    option=$before current=
  elif [[ $before == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $current != -* && $before == --* ]]; then
    option=$before
  fi
  # The program whose --help tells: laconic, a tool and what the tool does; behind launch and compare another program,
  # which may lie beside laconic.
  local program=("$1") here
  if [[ ${1##*/} == laconic ]]; then
    here=$(dirname "$(type -P "$1")")
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
      if [[ ${program[1]} == launch || ${program[1]} == compare ]]; then
        [[ $word != -* ]] || continue
        found=$(type -P "$here/$word" || type -P "$word") && program=("$found") && break
      elif [[ $word == -* || ${#program[@]} == 3 ]]; then
        break
      else
        program+=("$word")
      fi
    done
  fi
  help=$("${program[@]}" --help 2>/dev/null) || help=$("${program[@]:0:2}" --help 2>/dev/null)
  words=$(_laconic_words "$help" "$option")
  [[ $words != *@models* ]] || words+=$'\n'$("$1" models --json | grep -o '"model": *"[^"]*"' | cut -d '"' -f 4)
  COMPREPLY=($(compgen -W "$(grep -v @ <<<"$words")" -- "$current"))
  if [[ $words == *@files* ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
  [[ ${COMPREPLY[*]} == *[:^] ]] && compopt -o nospace 2>/dev/null  # a number follows
  return 0
}

complete -o default -F _laconic laconic mnist cifar10 imagenet ptb gpt
