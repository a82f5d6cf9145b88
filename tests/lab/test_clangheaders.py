# SPDX-License-Identifier: GPL-2.0-only
"""Tests of kernel headers for clang: two configuration files are changed, all others are links."""

from pathlib import Path

from triagelab.provision import clangheaders


def test_options_of_gcc_go_and_those_of_clang_come() -> None:
    made = clangheaders.for_make("CONFIG_CC_IS_GCC=y\nCONFIG_SMP=y\nCONFIG_GCC_VERSION=140200\n")
    assert "CONFIG_CC_IS_GCC" not in made
    assert {"CONFIG_SMP=y", "CONFIG_GCC_VERSION=0", "CONFIG_CC_IS_CLANG=y"} <= set(
        made.splitlines()
    )


def test_the_compiler_is_told_the_same() -> None:
    made = clangheaders.for_c("#define CONFIG_CC_HAS_NAMED_AS 1\n#define CONFIG_SMP 1\n")
    assert "NAMED_AS" not in made
    assert {"#define CONFIG_SMP 1", "#define CONFIG_CC_IS_CLANG 1"} <= set(made.splitlines())


def test_the_rest_is_linked_and_the_kernels_own_stays_as_it_was(tmp_path: Path) -> None:
    headers = tmp_path / "src/linux-headers-1"
    for name in ("include/config/auto.conf", "include/generated/autoconf.h"):
        (headers / name).parent.mkdir(parents=True)
        (headers / name).write_text("")
    (headers / "include/generated/utsrelease.h").write_text("release")
    (tmp_path / "src/linux-headers-common").mkdir()

    made = clangheaders.configured(headers, tmp_path / "made")
    made = clangheaders.configured(headers, tmp_path / "made")  # again, in the same folder
    assert (made / "include/generated/utsrelease.h").read_text() == "release"
    assert "CLANG" in (made / "include/config/auto.conf").read_text()
    assert "CLANG" in (made / "include/generated/autoconf.h").read_text()
    assert (made.parent / "linux-headers-common").is_dir()
    assert (headers / "include/config/auto.conf").read_text() == ""
