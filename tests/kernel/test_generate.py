# SPDX-License-Identifier: GPL-2.0-only
"""Tests that compat/generate.py finds members' offsets, and refuses unknown types of functions."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from triagelab.base import sources
from triagelab.provision import kernels


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """Import the program as a module."""
    folder = sources.MODULES / "compat"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("generate", folder / "generate.py")
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(folder))
    return made


STRUCT = """\
struct thing {
	struct queue *             q;                    /*     0     8 */
	unsigned int               bit:1;                /*     8: 0  4 */

	/* XXX 31 bits hole, try to pack */

	int                        (*call)(struct queue *, int); /*    16     8 */
	union {
		struct list_head   list;                 /*    24    16 */
		struct thing *     next;                 /*    24     8 */
	};                                               /*    24    16 */
	/* --- cacheline 1 boundary (64 bytes) was 16 bytes ago --- */
	struct {
		void *             priv[2];              /*    40    16 */
	} elv;                                           /*    40    16 */
	struct {
		int                inner;                /*    56     4 */
	} many[2];                                       /*    56     8 */
	struct {
		spinlock_t         lock;                 /*    64     4 */
	} __attribute__((__aligned__(64)));              /*    64    64 */
	char                       name[22];             /*   128    22 */

	/* size: 192, cachelines: 3, members: 8 */
};"""


def test_each_member_that_offsetof_takes_has_an_offset(generate: ModuleType) -> None:
    assert generate.offsets(STRUCT) == {
        "q": 0,
        "call": 16,
        "list": 24,
        "next": 24,
        "elv": 40,
        "elv.priv": 40,
        "many": 56,
        "lock": 64,
        "name": 128,
    }


def operations(generate: ModuleType, **changed: str) -> str:
    """Return a struct elevator_mq_ops as pahole prints it.

    Each operation has the first type in generate.OPERATIONS, or that in `changed`. If the type in
    `changed` is empty, the struct lacks the operation.
    """
    lines = ["struct elevator_mq_ops {"]
    for name, shapes in generate.OPERATIONS.items():
        shape = changed.get(name, next(iter(shapes)))
        if shape:
            result, _, arguments = shape.partition(" (")
            lines.append(f"\t{result}      (*{name})({arguments}; /*  0  8 */")
    return "\n".join([*lines, "};"])


def test_shapes_that_are_known_have_their_features(generate: ModuleType) -> None:
    older = operations(generate, init_sched="int (struct request_queue *, struct elevator_type *)")
    assert "MUST_ALLOC" not in generate.features_header(
        {"elevator_mq_ops": operations(generate)}, {}, set()
    )
    made = generate.features_header({"elevator_mq_ops": older}, {}, {"hrtimer_setup"})
    assert "#define IOSCHED_MUST_ALLOC 1" in made
    assert "#define IOSCHED_HAS_HRTIMER_SETUP 1" in made


@pytest.mark.parametrize(
    ("activate", "alloc", "features"),
    [
        ("struct request_queue *", "gfp_t, struct request_queue *, struct blkcg *", 2),
        ("struct gendisk *", "struct gendisk *, struct blkcg *, gfp_t", 0),
    ],
)
def test_functions_of_cgroups_have_the_features_of_their_age(
    generate: ModuleType, activate: str, alloc: str, features: int
) -> None:
    functions = {
        "blkcg_activate_policy": f"int blkcg_activate_policy({activate}, struct blkcg_policy *);",
        "blkcg_pol_alloc_pd_fn": (
            f"typedef struct blkg_policy_data * (blkcg_pol_alloc_pd_fn)({alloc});"
        ),
    }
    made = generate.features_header({"elevator_mq_ops": operations(generate)}, functions, set())
    assert made.count("TAKES_QUEUE 1") == features


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("bool (struct blk_mq_hw_ctx *, int)", r"has has_work as bool \(struct blk_mq_hw_ctx"),
        ("", "has has_work as no function at all"),
    ],
)
def test_a_shape_that_nobody_knows_is_named_in_one_line(
    generate: ModuleType, shape: str, said: str
) -> None:
    newer = operations(generate, has_work=shape)
    with pytest.raises(generate.MissingError, match=said) as error:
        generate.features_header({"elevator_mq_ops": newer}, {}, set())
    assert "\n" not in str(error.value)


def test_headers_are_made_again_if_what_they_are_made_from_has_changed(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    assert kernel.headers is not None
    symbols = tmp_path / "Module.symvers"
    symbols.write_text((kernel.headers / symbols.name).read_text())
    out = tmp_path / "out"
    arguments = ["--headers", str(tmp_path), "--vmlinux", str(kernel.elf), "--output", str(out)]
    monkeypatch.setattr(sys, "argv", ["generate.py", *arguments])
    assert generate.main() == 0
    made = (out / "private.h").read_text()

    monkeypatch.setattr(generate, "_run", None)  # a call raises TypeError
    assert generate.main() == 0
    symbols.write_text(symbols.read_text() + "one more\tsymbol\n")
    with pytest.raises(TypeError):
        generate.main()
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["generate.py", *arguments])
    assert generate.main() == 0

    (out / "private.h").unlink()
    assert generate.main() == 0
    assert (out / "private.h").read_text() == made
