# SPDX-License-Identifier: GPL-2.0-only
# Targets for users and developers. `make help` describes each.

KERNEL ?= 6.12
TESTS ?= due
developer = $(shell lab/environment lab/requirements-dev.txt)

mutating = $(shell "$(CURDIR)/lab/environment" "$(CURDIR)/lab/requirements-mutants.txt")
site = $(shell "$(CURDIR)/lab/environment" "$(CURDIR)/lab/requirements-docs.txt")
cache = $${TRIAGE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/triage}
quick_check = 01-exactly-once

.PHONY: help demo test quick quick-lab quick-kernel proof check modules matrix deb rpm arch \
	kernel-patch packages-in-guest packages-under-selinux release mutants figures docs lock \
	work trials clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

demo: ## run the main experiment, a database beside a backup; make a table and a report
	./triage run mixed-priority

test: ## run the tests, fast ones first; of many similar tests only a quarter (TESTS=all: all)
	TESTS=$(TESTS) PYTHONPATH=lab $(developer) -m pytest --durations=10 \
		--numprocesses=2 --dist=loadfile --no-loadscope-reorder \
		tests/lab tests/triagectl tests/proof tests/modeldisk tests/kernel \
		tests/packaging tests/product

quick: ## run the lab's fast tests; at the same time build the modules and run one check
	@$(MAKE) --no-print-directory -j2 quick-lab quick-kernel

quick-lab:
	@PYTHONPATH=lab $(developer) -m pytest -q --numprocesses=2 --dist=loadfile -m "not slow" tests/lab

quick-kernel:
	@rm -rf build/quick
	@if ls $(cache)/kernels/$(KERNEL)/boot/vmlinuz-* > /dev/null 2>&1; then \
		./triage verify triage --kernel $(KERNEL) --check $(quick_check) --out build/quick; \
	else \
		echo "kernel $(KERNEL) is not here yet, so nothing was built: make modules fetches it"; \
	fi

proof: ## model-check the protocol of triage's core, also with weak memory ordering
	PYTHONPATH=lab $(developer) -m pytest tests/proof

check: ## check types, lint and format of all Python; run checkpatch and sparse on the modules
	$(developer) -m ruff check .
	$(developer) -m ruff format --check .
	$(developer) -m mypy lab/triagelab lab/figures.py lab/mutants.py triagectl packaging tests
	./triage modules --check

modules: ## build the kernel modules for KERNEL (default 6.12)
	./triage modules --kernel $(KERNEL)

matrix: ## build triage for the oldest and the newest kernels of Debian, and verify it on each
	./triage matrix

deb: ## make a package for Debian, in build/packages
	$(MAKE) -C packaging deb

rpm: ## make packages for Fedora: one with DKMS, one with akmods
	$(MAKE) -C packaging rpm

arch: ## make a PKGBUILD with its files, for Arch Linux
	$(MAKE) -C packaging arch

lab = PYTHONPATH=lab $(developer) -c 'from triagelab.provision import kernels; print(kernels.$(1))'
kernel-patch: ## make a patch that adds triage to Linux 6.12, or to the source in TREE=FOLDER
	$(MAKE) -C packaging kernel-patch TREE=$${TREE:-$$($(call lab,excerpt()))}

packages-in-guest: ## install, upgrade and remove the Debian package in a guest; as root, slow
	PYTHONPATH=lab:. $(developer) -m tests.packaging.in_guest build/packages-in-guest

packages-under-selinux: ## install and remove the package in a guest with SELinux; as root, slow
	PYTHONPATH=lab:. $(developer) -m tests.packaging.under_selinux build/packages-under-selinux

release: ## build every package and patch of this version anew, and check them
	rm -rf build/packages
	$(MAKE) deb rpm arch kernel-patch
	$(MAKE) -C packaging sums
	PYTHONPATH=lab $(developer) -m pytest tests/packaging
	$(MAKE) -C packaging kernel-build SOURCE=$$($(call lab,source(kernels.DEFAULT_SERIES)))

mutants: ## put errors into the judging code, list those no test finds (SAMPLE=40: 40 per module)
	rm -rf build/mutants
	mkdir -p build/mutants
	cp -r lab/triagelab tests pyproject.toml build/mutants
	for folder in applications docs drives experiments kernel; do \
		ln -s "$(CURDIR)/$$folder" build/mutants; \
	done
	if [ -n "$(SAMPLE)" ]; then \
		cd build/mutants && $(mutating) "$(CURDIR)/lab/mutants.py" $(SAMPLE); \
	else \
		cd build/mutants && $(mutating) -m mutmut run && $(mutating) -m mutmut results; \
	fi

docs: ## build the documents as a site, build/site/docs/index.html; a broken link is an error
	rm -rf build/site
	$(site) -m sphinx --quiet --nitpicky --fail-on-warning --keep-going -b html \
		-c docs/site -d build/doctrees . build/site

figures: ## put the figures of docs/figures into the documents
	PYTHONPATH=lab $(developer) lab/figures.py write

lock: ## pin the Python dependencies again after a change to lab/*.in
	uv=$$(dirname "$$(lab/environment lab/requirements-lock.txt)")/uv; \
	for name in requirements requirements-dev requirements-mutants requirements-docs \
			requirements-lock; do \
		$$uv pip compile -q --generate-hashes --no-annotate --no-header --python-version 3.11 \
			lab/$$name.in -o lab/$$name.txt && \
		sed -i '1i # SPDX-License-Identifier: GPL-2.0-only\n# Made by `make lock`; change the .in file.' \
			lab/$$name.txt; \
	done

work: ## count the lines of Python and the CPU time that triagectl top needs for each event
	$(developer) -m tests.triagectl.work

trials: ## count the false verdicts of triagectl try on simulated loads, and the effects it sees
	$(developer) -m tests.triagectl.drifting

clean: ## remove what was built and measured here (the cache folder stays)
	rm -rf build results
