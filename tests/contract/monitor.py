#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays HAMi's monitor beside a share's programs: a reader and writer of the region that was written from
the published table of its layout (HAMi's 1.2) and knows nothing of ours.

usage: monitor.py DIRECTORY PERIOD_SECONDS

It wants exactly one *.cache file in the directory, maps the whole of it read-write, and does a round every
PERIOD (5 s in life): looks at every seat in [0, proc_num), counts recent_kernel down, writes
utilization_switch and each process's monitorused. Between rounds it answers lines on its input, one line
each:
  look            what it sees, as JSON: sums by GPU, processes by pid, what it wrote
  switch N        utilization_switch is N from the next round on
  recent N        recent_kernel is N at once (-1: launches pause), and counted down from there
  rounds N        after N more rounds: "done"
  seat I PID MIB  another implementation sits down in seat I with MIB of data on GPU 0, without our tail
  unseat I        and leaves, its place as it leaves it: no status, but the bytes still there and the number odd
What it finds out of order is told as a line that begins with "fault", and it ends with status 1.
"""
import glob
import json
import mmap
import os
import select
import struct
import sys
import time

SIZE = 2008952  # at least
MAGIC = 19920718
GPUS, SEATS = 16, 1024
AT_MAJOR, AT_DEVICE_NUM, AT_UUIDS, AT_LIMIT, AT_SM_LIMIT, AT_PROCS = 4, 56, 64, 1600, 1728, 1856
UUID_BYTES, SEAT_BYTES, USED_BYTES, UTIL_BYTES = 96, 1960, 64, 48
AT_PROC_NUM, AT_SWITCH, AT_RECENT, AT_PRIORITY, AT_LAST_KERNEL = 2008896, 2008900, 2008904, 2008908, 2008912
# in a seat
USED, MONITOR_USED, UTIL, STATUS, SEQUENCE = 8, 1032, 1160, 1928, 1936


class Fault(Exception):
    """The region isn't what the table says."""


def expect(condition, text):
    if not condition:
        raise Fault(text)


class Monitor:
    def __init__(self, directory):
        names = glob.glob(os.path.join(glob.escape(directory), '*.cache'))
        expect(len(names) == 1, f'{len(names)} *.cache files in {directory}')
        fd = os.open(names[0], os.O_RDWR)
        self.size = os.fstat(fd).st_size
        self.name = names[0]
        expect(self.size >= SIZE, f'{self.size} bytes')
        self.map = mmap.mmap(fd, self.size)
        os.close(fd)
        expect(self.i32(0) == MAGIC, 'not initialised')
        expect(self.i32(AT_MAJOR) == 1, f'major {self.i32(AT_MAJOR)}')
        self.switch = self.i32(AT_SWITCH)
        self.recent = None  # what we wrote last, or None
        self.overwritten = 0  # rounds that found another value of ours
        self.rounds = 0

    def i32(self, at):
        return struct.unpack_from('<i', self.map, at)[0]

    def u64(self, at):
        return struct.unpack_from('<Q', self.map, at)[0]

    def write_i32(self, at, value):
        struct.pack_into('<i', self.map, at, value)

    def uuids(self):
        count = self.u64(AT_DEVICE_NUM)
        expect(0 < count <= GPUS, f'{count} devices')
        raw = [self.map[AT_UUIDS + i * UUID_BYTES:AT_UUIDS + (i + 1) * UUID_BYTES] for i in range(GPUS)]
        for i, text in enumerate(raw):
            expect(b'\0' in text, f'uuid {i} has no end')
            expect(not text.rstrip(b'\0').count(b'\0'), f'uuid {i} is followed by something')
            expect((i < count) == bool(text[0]), f'uuid {i} of {count}')
        return [text.split(b'\0', 1)[0].decode('ascii') for text in raw[:count]]

    def seats(self):
        """(offset, index) of each seat in use."""
        high = self.i32(AT_PROC_NUM)
        expect(0 <= high <= SEATS, f'proc_num {high}')
        for i in range(high):
            at = AT_PROCS + i * SEAT_BYTES
            status = self.i32(at + STATUS)
            expect(status in (0, 1, 2), f'seat {i}: status {status}')
            if status:
                yield at, i

    def used(self, at, gpu):
        context, module, data, offset, total = struct.unpack_from('<5Q', self.map, at + USED + gpu * USED_BYTES)
        return {'context': context, 'module': module, 'data': data, 'offset': offset, 'total': total}

    def look(self):
        names = self.uuids()
        sums = [dict.fromkeys(('context', 'module', 'data', 'total', 'sm'), 0) for _ in names]
        processes = {}
        for at, index in self.seats():
            uses = []
            for gpu, total in enumerate(sums):
                use = self.used(at, gpu)
                use['sm'] = self.u64(at + UTIL + gpu * UTIL_BYTES + 16)
                for kind in total:
                    total[kind] += use[kind]
                use['monitorused'] = self.u64(at + MONITOR_USED + gpu * 8)
                uses.append(use)
            processes[str(self.i32(at))] = {'seat': index, 'status': self.i32(at + STATUS), 'gpus': uses}
        return {
            'uuids': names, 'sums': sums, 'processes': processes, 'rounds': self.rounds,
            'files': len(glob.glob(os.path.join(glob.escape(os.path.dirname(self.name)), '*.cache'))),
            'limits': [self.u64(AT_LIMIT + 8 * i) for i in range(len(names))],
            'sm_limits': [self.u64(AT_SM_LIMIT + 8 * i) for i in range(len(names))],
            'switch': self.i32(AT_SWITCH), 'recent': self.i32(AT_RECENT), 'priority': self.i32(AT_PRIORITY),
            'last_kernel': self.u64(AT_LAST_KERNEL), 'overwritten': self.overwritten,
        }

    def round(self):
        self.uuids()
        expect(os.path.getsize(self.name) == self.size, 'the file has another size')
        for at, _ in self.seats():
            for gpu in range(self.u64(AT_DEVICE_NUM)):
                # what NVML told it, in life
                struct.pack_into('<Q', self.map, at + MONITOR_USED + gpu * 8, self.used(at, gpu)['total'])
        if self.rounds and self.i32(AT_SWITCH) != self.switch_written:
            self.overwritten += 1
        self.write_i32(AT_SWITCH, self.switch)
        self.switch_written = self.switch
        recent = self.i32(AT_RECENT)
        # only a launch may raise it, to 2, and none that the monitor paused
        if self.recent is not None and recent != self.recent and not (recent == 2 and self.recent >= 0):
            self.overwritten += 1
        self.recent = recent - 1 if recent > 0 else recent
        self.write_i32(AT_RECENT, self.recent)
        self.rounds += 1

    def sit(self, index, pid, mib):
        at = AT_PROCS + index * SEAT_BYTES
        struct.pack_into('<ii', self.map, at, pid, pid)
        struct.pack_into('<5Q', self.map, at + USED, 0, 0, mib << 20, 0, mib << 20)
        self.write_i32(at + STATUS, 1)
        if self.i32(AT_PROC_NUM) <= index:
            self.write_i32(AT_PROC_NUM, index + 1)

    def stand_up(self, index):
        at = AT_PROCS + index * SEAT_BYTES
        struct.pack_into('<Q', self.map, at + SEQUENCE, self.u64(at + SEQUENCE) | 1)
        self.write_i32(at + STATUS, 0)

    def obey(self, words):
        verb, *numbers = words
        numbers = [int(n) for n in numbers]
        if verb == 'look':
            return json.dumps(self.look())
        if verb == 'switch':
            self.switch = numbers[0]
        elif verb == 'recent':
            self.write_i32(AT_RECENT, numbers[0])
            self.recent = numbers[0]
        elif verb == 'seat':
            self.sit(*numbers)
        elif verb == 'unseat':
            self.stand_up(*numbers)
        else:
            return f'unknown: {verb}'
        return 'ok'


def answer(text):
    print(text, flush=True)


def serve(directory, period):
    monitor = Monitor(directory)
    answer(f'ready {monitor.size}')
    due = time.monotonic()
    wanted = None
    buffer = b''
    while True:
        wait = max(0.0, due - time.monotonic())
        if wanted is None and select.select([0], [], [], wait)[0]:
            # by hand: a buffered reader would hide lines from select
            piece = os.read(0, 4096)
            if not piece:
                return
            buffer += piece
            while b'\n' in buffer and wanted is None:
                line, buffer = buffer.split(b'\n', 1)
                words = line.decode('ascii').split()
                if words[0] == 'rounds':
                    wanted = monitor.rounds + int(words[1])
                else:
                    answer(monitor.obey(words))
        elif wait:
            time.sleep(wait)
        if time.monotonic() >= due:
            monitor.round()
            due = time.monotonic() + period
        if wanted is not None and monitor.rounds >= wanted:
            wanted = None
            answer('done')


if __name__ == '__main__':
    try:
        serve(sys.argv[1], float(sys.argv[2]))
    except Fault as fault:
        answer(f'fault: {fault}')
        sys.exit(1)
