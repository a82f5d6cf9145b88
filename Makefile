# SPDX-License-Identifier: GPL-2.0-only
# Thin targets over ./triage and pytest; `make help` lists them.

KERNEL ?= 6.12
developer = $(shell lab/environment lab/requirements-dev.txt)

.PHONY: help demo test check modules matrix lock clean

help:
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

demo: ## the main experiment: a database beside a backup, table and report
	./triage run mixed-priority

test: ## every test, fast ones first
	PYTHONPATH=lab $(developer) -m pytest tests/lab tests/triagectl tests/modeldisk tests/kernel tests/product

check: ## types, lint and format of the lab and triagectl; checkpatch and sparse on the modules
	$(developer) -m ruff check .
	$(developer) -m ruff format --check .
	$(developer) -m mypy lab/triagelab triagectl tests
	./triage modules --check

modules: ## build the kernel modules for KERNEL (default 6.12)
	./triage modules --kernel $(KERNEL)

matrix: ## build and verify triage on the oldest and the newest kernels that Debian has
	./triage matrix

lock: ## pin the Python dependencies again after a change to lab/*.in
	for name in requirements requirements-dev; do \
		uv pip compile -q --generate-hashes --no-annotate --no-header --python-version 3.11 \
			lab/$$name.in -o lab/$$name.txt && \
		sed -i '1i # SPDX-License-Identifier: GPL-2.0-only\n# Made by `make lock`; change the .in file.' \
			lab/$$name.txt; \
	done

clean: ## remove what was built and measured here (the cache folder stays)
	rm -rf build results
