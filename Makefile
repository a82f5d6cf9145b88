# SPDX-License-Identifier: GPL-2.0-only
# Thin targets over ./triage and pytest; `make help` lists them.

KERNEL ?= 6.12
developer = $(shell lab/environment lab/requirements-dev.txt)

.PHONY: help demo test proof check modules matrix deb rpm arch kernel-patch packages-in-guest release lock clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

demo: ## the main experiment: a database beside a backup, table and report
	./triage run mixed-priority

test: ## every test, fast ones first
	PYTHONPATH=lab $(developer) -m pytest tests/lab tests/triagectl tests/proof tests/modeldisk tests/kernel tests/packaging tests/product

proof: ## explore the protocol of triage's core, under weak memory too
	PYTHONPATH=lab $(developer) -m pytest tests/proof

check: ## types, lint and format of the lab and triagectl; checkpatch and sparse on the modules
	$(developer) -m ruff check .
	$(developer) -m ruff format --check .
	$(developer) -m mypy lab/triagelab triagectl packaging tests
	./triage modules --check

modules: ## build the kernel modules for KERNEL (default 6.12)
	./triage modules --kernel $(KERNEL)

matrix: ## build and verify triage on the oldest and the newest kernels that Debian has
	./triage matrix

deb: ## a package for Debian, in build/packages
	$(MAKE) -C packaging deb

rpm: ## packages for Fedora: DKMS and akmods
	$(MAKE) -C packaging rpm

arch: ## a PKGBUILD with its files, for Arch Linux
	$(MAKE) -C packaging arch

lab = PYTHONPATH=lab $(developer) -c 'from triagelab import kernels; print(kernels.$(1))'
kernel-patch: ## a patch that adds triage to the source of Linux; TREE= another than 6.12
	$(MAKE) -C packaging kernel-patch TREE=$${TREE:-$$($(call lab,excerpt()))}

packages-in-guest: ## install, upgrade, remove the Debian package on a system that boots; as root
	PYTHONPATH=lab:. $(developer) -m tests.packaging.in_guest build/packages-in-guest

release: ## every package and patch of this version, built anew and checked
	rm -rf build/packages
	$(MAKE) deb rpm arch kernel-patch
	$(MAKE) -C packaging sums
	PYTHONPATH=lab $(developer) -m pytest tests/packaging
	$(MAKE) -C packaging kernel-build SOURCE=$$($(call lab,source(kernels.DEFAULT_SERIES)))

lock: ## pin the Python dependencies again after a change to lab/*.in
	for name in requirements requirements-dev; do \
		uv pip compile -q --generate-hashes --no-annotate --no-header --python-version 3.11 \
			lab/$$name.in -o lab/$$name.txt && \
		sed -i '1i # SPDX-License-Identifier: GPL-2.0-only\n# Made by `make lock`; change the .in file.' \
			lab/$$name.txt; \
	done

clean: ## remove what was built and measured here (the cache folder stays)
	rm -rf build results
