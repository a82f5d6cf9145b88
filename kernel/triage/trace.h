/* SPDX-License-Identifier: GPL-2.0-only */
/* Defines the tracepoints: each dispatch with its reason, and the beginning of each hold. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM triage

#if !defined(TG_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define TG_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(triage_dispatch,
	TP_PROTO(dev_t dev, sector_t sector, unsigned int bytes, const char *class,
		 const char *reason, u32 cost),
	TP_ARGS(dev, sector, bytes, class, reason, cost),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(sector_t, sector)
		__field(unsigned int, bytes)
		__field(u32, cost)
		/* Arrays, because perf and trace-cmd could not follow pointers. */
		__array(char, class, 8)
		__array(char, reason, 12)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->sector = sector;
		__entry->bytes = bytes;
		__entry->cost = cost;
		strscpy(__entry->class, class, sizeof(__entry->class));
		strscpy(__entry->reason, reason, sizeof(__entry->reason));
	),
	TP_printk("%d,%d sector %llu bytes %u class %s cost %u reason %s",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  (unsigned long long)__entry->sector, __entry->bytes,
		  __entry->class, __entry->cost, __entry->reason)
);

TRACE_EVENT(triage_hold,
	TP_PROTO(dev_t dev, unsigned int queued, u64 budget, u64 inside),
	TP_ARGS(dev, queued, budget, inside),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, queued)
		__field(u64, budget)
		__field(u64, inside)
	),
	TP_fast_assign(
		__entry->dev = dev;
		__entry->queued = queued;
		__entry->budget = budget;
		__entry->inside = inside;
	),
	TP_printk("%d,%d queued %u budget %llu inside %llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->queued,
		  __entry->budget, __entry->inside)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
