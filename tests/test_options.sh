#!/bin/bash
# test_options.sh - what shells and readers of manual pages make of what the program writes about itself: bash, zsh and fish
# complete real lines, man pages have no warnings. That every option is in there is test_options.c's. Prints what failed
# and a closing line.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
kvtile=$(realpath "$kvtile")
has() { command -v "$1" >/dev/null 2>&1; }
mkdir -p "$dir/work/folder" && touch "$dir/work/"{model.gguf,"my model.gguf",picture.svg,picture.png,text.txt}

# ---- Help and suggestions.
for line in "run --cache-sise 4G|unknown option --cache-sise; did you mean --cache-size?" \
    "run -p x --kv bf61|--kv does not know \"bf61\"; did you mean bf16?" "run -p x --kv k8v5|--kv does not know \"k8v5\"; did you mean k8v8?" \
    "perplexity --v itn4|--v does not know \"itn4\"; did you mean int4?" "run -p x --cache pagde|--cache is one of paged|contiguous|none, not \"pagde\"; did you mean paged?" \
    "rum|unknown command rum; did you mean run?" "bench decod|unknown command bench decod; did you mean decode?" \
    "--verson|unknown option --verson; did you mean --version?" "manual bench reus|unknown command bench reus; did you mean reuse?" \
    "completion bsah|SHELL is one of bash|zsh|fish, not \"bsah\"; did you mean bash?"; do
    # shellcheck disable=SC2086
    status 2 "${line%%|*}" "$kvtile" ${line%%|*}
    check "${line%%|*} suggests: $(head -n 1 "$dir/err")" grep -qxF -- "kvtile: ${line#*|}" "$dir/err"
done
for line in "run --frobnicate" "frobnicate" "bench frobnicate" "help frobnicate"; do
    # shellcheck disable=SC2086
    status 2 "$line" "$kvtile" $line
    if grep -q "did you mean" "$dir/err"; then bad "$line suggests something"; else good; fi
done
for line in "help run x" "help bench decode x" "manual run x" "manual run --write ." "completion" "completion bash zsh" "bench --frobnicate"; do
    # shellcheck disable=SC2086
    status 2 "$line" "$kvtile" $line
done
measurements=$("$kvtile" help bench | sed -nE 's/^  ([a-z]+) .*/bench \1/p')
mapfile -t names < <("$kvtile" help | sed -nE 's/^  ([a-z]+) .*/\1/p' && echo "$measurements")
check "the lists name commands" test "${#names[@]}" -ge 18
for name in "${names[@]}"; do
    # shellcheck disable=SC2086
    check "help $name is $name --help" cmp -s <("$kvtile" help $name) <("$kvtile" $name --help)
    # shellcheck disable=SC2086
    check "help of $name has no two empty lines" test -z "$("$kvtile" help $name | awk '!NF && empty; { empty = !NF }' | wc -l | grep -v '^0$')"
    # shellcheck disable=SC2086
    check "help of $name begins with a sentence" grep -qE '^[A-Z`].*' <("$kvtile" help $name | sed -n '/^$/{n;p;q}')
    # shellcheck disable=SC2086
    check "help of $name within 80 columns" test "$("$kvtile" help $name | grep -v '^usage:\|^  kvtile ' | wc -L)" -le 80
done

# ---- The manual pages.
status 0 "all pages" "$kvtile" manual --write "$dir"
refused "a folder that is not there" nowhere "No such file" -- "$kvtile" manual --write "$dir/nowhere"
for name in kvtile kvtile-{run,chat,inspect,plan,simulate,perplexity,store,bench}; do check "$name.1" grep -q "^.TH" "$dir/$name.1"; done
check "a measurement is on its family's page" cmp -s "$dir/kvtile-bench.1" <("$kvtile" manual bench decode)
check "a minor command is on the program's page" cmp -s "$dir/kvtile.1" <("$kvtile" manual completion)
for page in "$dir"/kvtile*.1; do
    has mandoc && check "mandoc of $(basename "$page"): $(mandoc -Tlint -Wall "$page")" test -z "$(mandoc -Tlint -Wall "$page")"
    has groff && check "groff of $(basename "$page")" test -z "$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)"
    has mandoc && check "letters of $(basename "$page")" test "$(mandoc -Tascii "$page" | col -b | grep -c '\\f\|(default: )')" = 0
done
has mandoc || echo "skipped: mandoc is not there"
has groff || echo "skipped: groff is not there"

# ---- bash: the function that the script defines, called as the shell would.
"$kvtile" completion bash >"$dir/bash"
# bash_has WANTED WORD...: what completes the last word is that, sorted, in a line.
bash_has() {
    local wanted=$1 got
    shift
    got=$(cd "$dir/work" && bash --norc -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kvtile; ((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]}"' "$dir/bash" "$@" 2>&1 | sort | paste -sd ' ')
    check "bash: $*: \"$got\", not \"$wanted\"" test "$got" = "$wanted"
}
bash_has "run" kvtile r
bash_has "--help --version" kvtile --
bash_has "decode" kvtile bench de
bash_has "--cache --cache-size" kvtile run --ca
bash_has "contiguous none paged" kvtile run --cache ""
bash_has "contiguous" kvtile run -p hello --cache con
bash_has "bf16" kvtile run --kv = b
bash_has "k8v4 k8v8" kvtile run --kv = k8
bash_has "int2 int3 int4 int8" kvtile plan --k int
bash_has "" kvtile plan --k k
bash_has "" kvtile run --temp ""
bash_has "folder model.gguf my model.gguf" kvtile run -m ""
bash_has "model.gguf" kvtile inspect mo
bash_has "--json" kvtile inspect --j
bash_has "folder picture.png picture.svg" kvtile bench decode --plot ""
bash_has "text.txt" kvtile run -f t
bash_has "--depths" kvtile bench decode --d
bash_has "" kvtile bench prefill --d
bash_has "bash" kvtile completion b
bash_has "share step" kvtile help bench s
bash_has "manual" kvtile help man
bash_has "s3-fifo" kvtile simulate --policy s
bash_has "llama-3-70b llama-3-8b" kvtile plan --name llama-3-
bash_has "all gqa:8 mha mla mqa" kvtile plan --as ""
bash_has "" kvtile nonsense ""

# ---- fish tells what it would offer.
if has fish; then
    "$kvtile" completion fish >"$dir/fish"
    fish_has() {
        local wanted=$1 got
        got=$(cd "$dir/work" && HOME=$dir fish --no-config -c "source $dir/fish; complete -C '$2'" 2>&1 | cut -f 1 | sort | paste -sd ' ')
        check "fish: $2: \"$got\", not \"$wanted\"" test "$got" = "$wanted"
    }
    check "fish reads the script" fish --no-execute "$dir/fish"
    fish_has "run" "kvtile r"
    fish_has "decode" "kvtile bench de"
    fish_has "--cache --cache-size" "kvtile run --ca"
    fish_has "contiguous none paged" "kvtile run --cache "
    fish_has "--kv=bf16" "kvtile run --kv=b"
    fish_has "k4v2 k4v4" "kvtile chat --kv k4"
    fish_has "model.gguf" "kvtile run -m mo"
    fish_has "picture.svg" "kvtile bench decode --plot picture.s"
    fish_has "--depths" "kvtile bench decode --d"
    fish_has "" "kvtile bench prefill --d"
    fish_has "share step" "kvtile help bench s"
    fish_has "bash" "kvtile completion b"
    fish_has "s3-fifo" "kvtile simulate --policy s3"
    fish_has "llama-3-70b llama-3-8b" "kvtile plan --name llama-3-"
    fish_has "gqa:8" "kvtile plan --as g"
else
    echo "skipped: fish is not there"
fi

# ---- zsh completes in a terminal of its own; the line as it stands after the key, without control letters, is what counts.
if has zsh; then
    "$kvtile" completion zsh >"$dir/zsh"
    cat >"$dir/drive" <<'ZSH'
zmodload zsh/zpty
zpty z "TERM=dumb zsh -f -i"
zpty -w z "PS1=; autoload -Uz compinit; compinit -u -D; source $1; cd $2; bindkey '^I' complete-word; unsetopt zle_bracketed_paste"
for line in "${@:3}"; do zpty -n -w z "$line"$'\t\n'; done
zpty -w z 'print EN''D; exit'
while zpty -r z part; do print -rn -- "$part"; [[ $part == *END* ]] && break; done
ZSH
    # The lines are run, and the shell says what they are: kvtile is an echo there.
    printf '\nkvtile() { print -r -- "<kvtile $*>" }\n' >>"$dir/zsh"
    lines=("kvtile ru" "kvtile bench dec" "kvtile run --kv b" "kvtile run --kv=f3" "kvtile run --cache-s" "kvtile run -m mod"
        "kvtile bench decode --plot picture.s" "kvtile help bench sh" "kvtile completion b" "kvtile bench prefill --dep"
        "kvtile simulate --policy s3" "kvtile plan --name=smol" "kvtile plan --as g")
    wanted="<kvtile run>|<kvtile bench decode>|<kvtile run --kv bf16>|<kvtile run --kv=f32>|<kvtile run --cache-size>|<kvtile run -m model.gguf>|<kvtile bench decode --plot picture.svg>|<kvtile help bench share>|<kvtile completion bash>|<kvtile bench prefill --dep>|<kvtile simulate --policy s3-fifo>|<kvtile plan --name=smollm2-135m>|<kvtile plan --as gqa:8>"
    for try in 1 2 3; do # on a busy machine the terminal may be read before it has said anything
        got=$(HOME=$dir timeout 60 zsh -f "$dir/drive" "$dir/zsh" "$dir/work" "${lines[@]}" 2>&1 | tr -d '\r' | grep -o '^<kvtile [^>]*>' | paste -sd '|')
        [ "$got" != "$wanted" ] || break
    done
    check "zsh reads the script" zsh -n "$dir/zsh"
    check "zsh: $got" test "$got" = "$wanted"
else
    echo "skipped: zsh is not there"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
