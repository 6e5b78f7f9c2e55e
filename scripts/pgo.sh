#!/usr/bin/env bash
# Builds the program with a profile of itself: the compiler learns from a run of every scheme which
# code is hot, inlines there and lays it out side by side. What a transaction waits for most, after
# memory, is its own instructions.
#
#     scripts/pgo.sh                                   # `atoll`: TARGET/pgo/atoll
#     scripts/pgo.sh -p atoll-bench --example bench    # its benchmarks alone, in minutes
#
# The crates of this workspace are compiled anew, once to be watched and once with what was seen;
# libraries are those of `cargo build --release`. The compiler's llvm-tools are installed if they are
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/pgo
what=("$@")
[ ${#what[@]} -gt 0 ] || what=(-p atoll-cli --bin atoll)
name=
for at in "${!what[@]}"; do
    case ${what[at]} in
        --bin) name=${what[at + 1]} ;;
        --example) name=examples/${what[at + 1]} ;;
    esac
done
: "${name:?say which program: --bin NAME or --example NAME}"

tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
if [ ! -x "$tools/llvm-profdata" ] && ! rustup component add llvm-tools; then
    echo "pgo.sh: llvm-profdata is missing, and so is rustup, which installs it" >&2
    exit 1
fi

# build TO FROM FLAGS -- WHAT...: builds WHAT with the flags and takes program FROM to $out/TO; a
# `cargo build` afterwards finds its own again.
#
# Cargo keeps apart what different wrappers have compiled, so each set of flags is a wrapper. It
# also names their crates differently, and a profile speaks of functions by name: so the wrappers
# name the crates by their packages.
build() {
    local to=$out/$1 from=$2 flags=() wrapper
    shift 2
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    wrapper=$out/rustc-$(printf '%s\n' "${flags[@]}" | sha256sum | cut -c1-16)
    cat > "$wrapper" <<WRAPPER
#!/usr/bin/env bash
set -- "\${@/#metadata=*/metadata=\${CARGO_PKG_NAME:-}}"
exec "\$@" ${flags[*]@Q}
WRAPPER
    chmod +x "$wrapper"
    RUSTC_WORKSPACE_WRAPPER=$wrapper cargo build --locked --release --quiet "${@:2}"
    mv "$target/release/$from" "$to"
}

mkdir -p "$out"
rm -rf "$out/raw"
echo "== building the benchmarks, to be watched"
build watched examples/bench "-Cprofile-generate=$out/raw" -- -p atoll-bench --example bench

echo "== running every scheme"
short="--threads 1 --seconds 1 --warmup 0"
# Asked for one that there is not, it says which there are.
schemes=$("$out/watched" ycsb --scheme '?' 2>&1 | sed -n 's/.*choose one of //p' | tr -d , || true)
for scheme in ${schemes:?no schemes}; do
    "$out/watched" ycsb --scheme "$scheme" --rows 100000 --theta 0.6 --reads 0.5 $short
    "$out/watched" ycsb --scheme "$scheme" --rows 100000 --theta 0 --reads 1 $short
    "$out/watched" tpcb --scheme "$scheme" $short
    "$out/watched" tpcc --scheme "$scheme" --warehouses 1 $short
    "$out/watched" tpcc --scheme "$scheme" --warehouses 1 --mix new-order=50,payment=50 $short
done > "$out/runs.log"
"$tools/llvm-profdata" merge -o "$out/merged" "$out"/raw/*.profraw
profile=$out/$(sha256sum "$out/merged" | cut -c1-16).profdata
mv "$out/merged" "$profile"

echo "== building the program with what was seen"
build "$(basename "$name")" "$name" "-Cprofile-use=$profile" \
    -Cllvm-args=-pgo-warn-missing-function=false -- "${what[@]}"
echo "== $out/$(basename "$name")"
