/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The version of everything here: the module, its packages, ./triage and triagectl. A release
 * changes it in the line below, and adds it to CHANGELOG.md.
 */
#ifndef TRIAGE_VERSION_H
#define TRIAGE_VERSION_H

#define TRIAGE_VERSION "0.2.0"

#endif
