# SPDX-License-Identifier: BSD-2-Clause
#
# libhwt in gdb: what is pending in a timer, in a live process or a core dump.  The library needs its debug symbols.
#
#     (gdb) source /usr/local/share/gdb/hwt-gdb.py
#     (gdb) hwt timers                  the timers that have a worker thread
#     (gdb) hwt timers POINTER          this one, whichever thread drives it
#     (gdb) hwt by-task [POINTER]       how many are pending or run, by their task, most first
#     (gdb) hwt pending [POINTER]       each of them
#
# POINTER is an expression for a hwt_timer *.  Without one it is each timer that `hwt timers` finds.  Deadlines are
# seconds on the timer's clock.
#
# All is read slab by slab (src/lane/record_slab.h): gdb takes longer for each access than for a slab.

import struct
import gdb

SLAB_BYTES = 2 << 20
RECORD = struct.Struct("=QQqQQQ")  # word, lane, deadline_ns, task, arg, place: src/base/record.h
GENERATION_SHIFT = 16
STATE_MASK = 0x7f
EXTENDED = 1 << 12
NEVER = (1 << 63) - 1
CLOCKS = {0: "CLOCK_MONOTONIC", 1: "CLOCK_BOOTTIME", 2: "CLOCK_REALTIME"}
STATES = ("STATE_QUEUED", "STATE_ARMED", "STATE_READY", "STATE_RUNNING")


def timer_type():
    try:
        kind = gdb.lookup_type("struct hwt_timer")
    except gdb.error:
        raise gdb.GdbError("no debug symbols of libhwt")
    if gdb.lookup_type("struct hwt_record").sizeof != RECORD.size:
        raise gdb.GdbError("this script is for processors of 64 bits, and for the version of libhwt that it came with")
    return kind.pointer()


def number(value):
    """An atomic is the number that it holds."""
    return int(value.cast(gdb.lookup_type("unsigned long long")))


def is_of_library(frame):
    """A program may have a function of that name, too."""
    symtab = frame.find_sal().symtab
    return symtab is not None and symtab.filename.endswith(("timer/launch.c", "hwt.c"))


def timer_of_frame(frame):
    """The timer of worker_main, or None if it is optimised away there."""
    for name in ("timer", "arg"):
        try:
            value = frame.read_var(name)
            if not value.is_optimized_out:
                return value.cast(timer_type())
        except (ValueError, gdb.error):
            pass
    return None


def timer_of_tasks():
    """The timer of the selected thread's outermost task, which may drive or stop other timers."""
    try:
        task = gdb.parse_and_eval("hwt_current_task")
        while int(task["outer"]) != 0:
            task = task["outer"]
        return task["timer"].cast(timer_type())
    except gdb.error:
        return None


def timer_of_thread():
    """The timer for which the selected thread is the worker, or None."""
    frame = gdb.newest_frame()
    while frame is not None and not (frame.name() == "worker_main" and is_of_library(frame)):
        frame = frame.older()
    if frame is None:
        return None
    timer = timer_of_frame(frame)
    return timer if timer is not None else timer_of_tasks()


def workers():
    """Each timer that has a worker thread, once."""
    before, found = gdb.selected_thread(), {}
    if before is None:
        raise gdb.GdbError("no process, and no core dump")
    frame = gdb.selected_frame()
    try:
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda it: it.num):
            thread.switch()
            timer = timer_of_thread()
            if timer is not None:
                found[int(timer)] = timer
    finally:
        before.switch()
        frame.select()
    return list(found.values())


def timers_of(argument):
    kind = timer_type()
    if argument:
        timer = gdb.parse_and_eval(argument).cast(kind)
        try:
            gdb.selected_inferior().read_memory(int(timer), kind.target().sizeof)
        except gdb.MemoryError:
            raise gdb.GdbError("no hwt_timer at %#x" % int(timer))
        return [timer]
    found = workers()
    if not found:
        raise gdb.GdbError("no worker thread of libhwt; of a timer without one give the pointer")
    return found


def slabs_of(timer):
    """The bytes of each slab's span, by its address."""
    found = {}
    slab = timer["lanes"]["slabs"]["newest"]
    slab = slab.cast(gdb.lookup_type("struct hwt_record_slab").pointer())
    while int(slab) != 0:
        begin = (int(slab) & ~(SLAB_BYTES - 1)) - SLAB_BYTES
        span = number(slab["span"])
        if span > 0:
            try:
                found[begin] = bytes(gdb.selected_inferior().read_memory(begin, span))
            except gdb.MemoryError:
                raise gdb.GdbError("the records at %#x are unreadable" % begin)
        slab = slab["next"]
    return found


def pending_of(timer):
    """(address, generation, is running, deadline, period, task, arg) of each timeout that has not ended."""
    slabs = slabs_of(timer)
    states = {field.enumval: field.name == "STATE_RUNNING"
              for field in gdb.lookup_type("enum word_state").fields() if field.name in STATES}
    for begin, memory in slabs.items():
        whole = len(memory) // RECORD.size * RECORD.size
        at = begin - RECORD.size
        for word, _, deadline, task, arg, _ in RECORD.iter_unpack(memory[:whole]):
            at += RECORD.size
            running = states.get(word & STATE_MASK)
            if running is None:
                continue
            period = 0
            if word & EXTENDED:
                second = arg & ~(SLAB_BYTES - 1)
                try:
                    _, _, period, arg, _, _ = RECORD.unpack_from(slabs[second], arg - second)
                except (KeyError, struct.error):
                    raise gdb.GdbError("the timeout at %#x is broken: arg %#x" % (at, arg))
            yield at, word >> GENERATION_SHIFT, running, deadline, period, task, arg


def name_of(task, names):
    """names has those that this command knows."""
    if task not in names:
        block = gdb.block_for_pc(task)
        symbol = block.function if block is not None else None
        names[task] = symbol.print_name if symbol is not None else gdb.execute(
            "info symbol %d" % task, to_string=True).split(" in section")[0].strip()
    return names[task]


def seconds(ns):
    return "never" if ns == NEVER else "%.3f s" % (ns / 1e9)


class Hwt(gdb.Command):
    """Timers of libhwt: hwt timers, hwt by-task, hwt pending."""

    def __init__(self):
        super().__init__("hwt", gdb.COMMAND_DATA, prefix=True)


class Timers(gdb.Command):
    """hwt timers [POINTER]: the timers that have a worker thread, or this one."""

    def __init__(self):
        super().__init__("hwt timers", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for timer in timers_of(argument):
            config = timer["config"]
            clock = "a virtual clock" if int(config["flags"]) & 4 else CLOCKS[int(config["clock"])]
            pending = running = 0
            for it in pending_of(timer):
                running += it[2]
                pending += not it[2]
            print("(hwt_timer *) %#x \"%s\": %d pending, %d running, tick %s on %s" % (
                int(timer), timer["thread_name"].string(), pending, running,
                seconds(int(config["tick_duration_ns"])), clock))


class ByTask(gdb.Command):
    """hwt by-task [POINTER]: how many are pending or run, their next deadline and their task, most first."""

    def __init__(self):
        super().__init__("hwt by-task", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for timer in timers_of(argument):
            rows, names = {}, {}
            for _, _, _, deadline, _, task, _ in pending_of(timer):
                count, least = rows.get(task, (0, deadline))
                rows[task] = count + 1, min(least, deadline)
            print("(hwt_timer *) %#x" % int(timer))
            for task, (count, least) in sorted(rows.items(), key=lambda row: (-row[1][0], row[0])):
                print("%9d  next at %s  %s" % (count, seconds(least), name_of(task, names)))


class Pending(gdb.Command):
    """hwt pending [POINTER]: each timeout that is pending or running."""

    def __init__(self):
        super().__init__("hwt pending", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for timer in timers_of(argument):
            print("(hwt_timer *) %#x" % int(timer))
            names = {}
            for at, generation, running, deadline, period, task, arg in pending_of(timer):
                print("hwt timeout %#x:%d %s at %s%s  %s(%s)" % (
                    at, generation, "running, due" if running else "pending, due", seconds(deadline),
                    " each %s" % seconds(period) if period else "", name_of(task, names), "%#x" % arg if arg else "0"))


Hwt()
Timers()
ByTask()
Pending()
