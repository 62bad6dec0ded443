/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger's protocol as src/region/ledger.c, entry.h, recover.c and seat.c carry it out, one GPU.
 * Step names: A1 .. A8, R1, R2 are ledger.c's; K1 .. K7 the claim's steps 1 to 7 and E1 .. E6 the
 * emptying's, both in recover.c. README.md says what is abstracted and why.
 *
 * An atomic block has at most one access to what another process may write (but for ONE_READ and the
 * polling in A8, where README.md says why), so every interleaving of accesses is explored. W() is a step
 * before which its process may also die or stop for ever. R() is a read: a death amid reads leaves what
 * a death before the first of them leaves, so it offers none of its own.
 *
 * Checked: "never over" at each grant (A5), "no false refusal" at each refusal (A4), "somebody gets
 * through" as the absence of fair cycles (every program is finite) and of stuck ends, and "nothing
 * unrecovered", the latter two at the end of init.
 *
 * -DPLANT_x puts one fault into the protocol; models/run must then find a violation.
 */
#ifndef N
#define N 2 /* seats */
#endif
#ifndef LIMIT
#define LIMIT 4
#endif
#ifndef CRASHES
#define CRASHES 0 /* how many processes die, at any step */
#endif
#ifndef STOPS
#define STOPS 0 /* how many stop for ever, at any step */
#endif
#ifndef BIRTHS
#define BIRTHS 0 /* how many of those that died or left are followed by another process in their seat */
#endif
#ifndef EARLY
#define EARLY 1 /* how often 1 ms passes over an asker that runs, only slowly; 99: any number of times */
#endif
#define OPS 4 /* operations of one process, the last is 0 */
#ifndef LARGEST
#define LARGEST LIMIT /* the largest limit that is ever in force */
#endif

/* bit 0 asking | 4 bits nonce | version. Neither wraps in the model: asserted. */
#define ASKING(w) ((w) & 1)
#define NONCE(w) (((w) >> 1) & 15)
#define VERSION(w) ((w) >> 5)
#define SIDE(w) (VERSION(w) & 1)
#define ANNOUNCED(w) ((VERSION(w) << 5) | (((w) + NONCE_ONE) & 30) | 1)
#define WITHDRAWN(w) ((w) & ~1)
#define FLIPPED(w) (WITHDRAWN(w) + 32)
#ifdef PLANT_NO_NONCE
#define NONCE_ONE 0
#else
#define NONCE_ONE 2
#endif

/* The region. */
byte limit = LIMIT;
short word[N];
byte value[2 * N];
bool odd[N];	   /* the seat's generation */
bool byte_seat[N]; /* locked by the living owner */
byte byte_reap[N]; /* 0 = free, else 1 + the seat of the process that locked it */
#ifdef NEWCOMER
byte high = NEWCOMER;
#else
#define high N
#endif

#define VALUE(k, side) value[2 * (k) + (side)]
#define CHARGE(k) VALUE(k, SIDE(word[k]))

/* What may still go wrong. */
byte crashes = CRASHES, stops = STOPS, births = BIRTHS, early = EARLY;
bool stopped[N];

/* Ghosts: what is really so. No step of the protocol reads them. */
bool sits[N];	 /* the entry is a living process's own: it was emptied for it, and it lives */
bool finished[N];
byte held[N];	 /* granted and not yet refunded, by the living */
byte asked[N];	 /* the size of the ask under way */
bool no_room[N]; /* at some instant of it, the living's charges left no room under the limit then */
#ifdef LIMITS /* the limit becomes the first of two, then the second (0: it stays) */
byte most[N];	 /* the largest limit during it */
#define MOST(k) most[k]
#else
#define MOST(k) LIMIT
#endif
#ifdef FORCED
byte forced[N];	 /* what others booked by force during it */
#define FORCED_BESIDE(k) forced[k]
#define OVER_HELD false
#else
#define FORCED_BESIDE(k) 0
#define OVER_HELD (HELD > LARGEST)
#endif
hidden byte program[N * OPS];
hidden byte over, torn; /* so that a violation says its name */

#define LIVING(k) (sits[k] -> CHARGE(k) : 0)
#if N == 2
#define SUM (LIVING(0) + LIVING(1))
#define HELD (held[0] + held[1])
#else
#define SUM (LIVING(0) + LIVING(1) + LIVING(2))
#define HELD (held[0] + held[1] + held[2])
#endif

#define SEE(k) if :: asked[k] > 0 && SUM + asked[k] > limit -> no_room[k] = true :: else fi

/* After whatever may have made room scarcer. */
inline see_all() {
	SEE(0);
	SEE(1);
#if N == 3
	SEE(2);
#endif
}

inline ask_begins() {
	asked[me] = size;
#ifdef LIMITS
	most[me] = limit;
#endif
	SEE(me)
}

inline ask_ends() {
	asked[me] = 0;
	no_room[me] = false;
#ifdef LIMITS
	most[me] = 0;
#endif
#ifdef FORCED
	forced[me] = 0;
#endif
}

/* Locals that no later step reads are zeroed, so that states that behave alike are equal. */
inline forget_collect() {
	j = 0; w = 0; v = 0; x = 0; c = 0; o = 0;
#ifndef PLANT_LIMIT_EARLY
	lim = 0;
#endif
	k = 0;
	do
	:: k < N -> seen[k] = 0; seen_charge[k] = 0; counted[k] = false; k++
	:: else -> break
	od;
	k = 0
}

inline forget_ask() {
	forget_collect();
	lim = 0; mine = 0; size = 0;
	do
	:: k < N -> dead_word[k] = 0; k++
	:: else -> break
	od;
	k = 0
}

inline dies() {
	crashes--;
	sits[me] = false;
	byte_seat[me] = false;
	held[me] = 0;
	ask_ends();
	forget_ask();
	do
	:: k < N && byte_reap[k] == me + 1 -> byte_reap[k] = 0; k++
	:: k < N && byte_reap[k] != me + 1 -> k++
	:: k == N -> break
	od;
	k = 0
}

inline stops_for_ever() {
	stops--;
	stopped[me] = true;
	ask_ends();
	forget_ask();
	pc = 0
}

/* An option of a choice must not begin with an if, which would be merged into it: hence `true`. A goto
 * to a label before an atomic block gives way to others in between. */
#if CRASHES + STOPS > 0
#define FAULTS \
	:: atomic { crashes > 0 -> d_step { dies() } goto dead } \
	:: atomic { stops > 0 -> d_step { stops_for_ever() } goto end_stopped }
#define W(...) if FAULTS :: atomic { true; __VA_ARGS__ } fi
#else
#define FAULTS
#define W(...) atomic { true; __VA_ARGS__ }
#endif
#define R(...) atomic { true; __VA_ARGS__ }

#ifdef PROGRESS /* a cycle must be able to close; README.md says where it is shown that none wraps */
#define NO_WRAP skip
#else
#define NO_WRAP assert(NONCE(word[me]) < 15 && VERSION(word[me]) < 15)
#endif

#define FIRST (me == 0 -> 1 : 0)
#define AFTER(j) (j + 1 == me -> j + 2 : j + 1)
#define FITS(charged) (charged + size <= lim)

/* Faults that change an expression only. */
#ifdef PLANT_ASKS_REFUSE /* undecided asks count in a refusal */
#define REFUSED_FOR (c + o)
#else
#define REFUSED_FOR c
#endif
#ifdef PLANT_ASKS_IGNORED /* undecided asks don't count in a grant */
#define WAITED_FOR c
#else
#define WAITED_FOR (c + o)
#endif
#ifdef PLANT_DEAD_BY_SEAT /* who was found dead is left out, whoever sits there by now */
#define LEFT_OUT (dead_word[j] != 0)
#else
#define LEFT_OUT (dead_word[j] == w)
#endif
#ifdef PLANT_DEAD_COUNTED /* nobody asks the kernel */
#define DEAD(j) false
#else
#define DEAD(j) !byte_seat[j]
#endif
#ifdef PLANT_VERSION_RESET /* emptying makes the version that of a new seat */
#define EMPTIED(w) (SIDE(w) -> 0 : 32)
#else
#define EMPTIED(w) FLIPPED(w)
#endif
#ifdef PLANT_SYMMETRIC /* a higher seat cancels a lower one at once */
#define GIVES_WAY(j) false
#else
#define GIVES_WAY(j) (j < me)
#endif

#ifdef PLANT_VALIDATE_FIRST /* before asking about the dead */
#define VALIDATED A4_weigh
#else
#define VALIDATED A4_withdraw
#endif

/* E3 to E6 of entry k. The caller holds its reap byte while the seat byte is free, or its seat byte. */
#define EMPTY(retry, k) \
retry:	R(w = word[k]); \
	W(VALUE(k, !SIDE(w)) = 0); \
	W(if \
	  :: word[k] == w -> d_step { word[k] = EMPTIED(w); w = 0 } \
	  :: else -> goto retry \
	  fi); \
	W(odd[k] = false)

/* The operation at pc: 1..9 ask, 11..19 refund, 21..29 forced charge, 30 leave the seat, 0 the end. */
inline operation() {
	d_step {
		size = program[me * OPS + pc];
		do
		:: size > 10 && size < 20 && held[me] < size - 10 -> /* what it would give back was refused */
			pc++;
			size = program[me * OPS + pc]
		:: else -> break
		od
	}
	if
	:: size == 0 -> goto done
	:: size > 0 && size < 10 -> goto A1
	:: size > 10 && size < 20 -> size = size - 10; goto R1
	:: size > 20 && size < 30 -> size = size - 20; goto R1_forced
	:: size == 30 -> size = 0; goto leave
	fi
}

/* On to the next seat that A4 must ask about. c is what the living hold, as far as it was asked. */
inline weigh_on() {
	d_step {
		do
		:: j < top && FITS(c) && (seen_charge[j] == 0 || dead_word[j] == seen[j]) -> j = AFTER(j)
		:: else -> break
		od
	}
	if
	:: j < top && FITS(c) -> goto A4
	:: j >= top && FITS(c) -> d_step { forget_collect() } goto A3
	:: !FITS(c) ->
		j = FIRST;
#if defined(PLANT_VALIDATE_FIRST) || defined(PLANT_NO_VALIDATE)
		goto A4_withdraw
#else
		validate_on()
#endif
	fi
}

inline validate_on() {
	d_step {
		do
		:: j < top && !counted[j] -> j = AFTER(j)
		:: else -> break
		od
	}
	if
	:: j < top -> goto A4_validate
	:: else -> goto VALIDATED
	fi
}

/* On to the next undecided ask in the way. */
inline clear_on() {
	d_step {
		do
		:: j < top && !ASKING(seen[j]) -> j = AFTER(j)
		:: else -> break
		od
	}
	if
	:: j < top && GIVES_WAY(j) -> d_step { forget_collect() } goto A7_withdraw
	:: j < top && !GIVES_WAY(j) -> goto A7_cancel
	:: else -> d_step { forget_collect() } goto A3
	fi
}

#define UNMOVED(j) (counted[j] && word[j] == seen[j])
#define RUNS(j) (UNMOVED(j) && sits[j] && !stopped[j])
#if N == 2
#define ANY_UNMOVED (UNMOVED(0) || UNMOVED(1))
#define ANY_RUNS (RUNS(0) || RUNS(1))
#else
#define ANY_UNMOVED (UNMOVED(0) || UNMOVED(1) || UNMOVED(2))
#define ANY_RUNS (RUNS(0) || RUNS(1) || RUNS(2))
#endif

/* `joins`: it claims the seat first: as a newcomer (the seat was never used) or as an heir of the dead. */
proctype Process(byte me; bool joins) {
	byte pc;	/* which operation of the program */
	byte size;	/* of the ask, refund or forced charge */
	byte j, k, v, x;
	short w;
	short mine;	/* the own word at A2 */
	byte c, o, lim, top = N;
	short seen[N];
	byte seen_charge[N];
	short dead_word[N];
	bool counted[N];

	atomic { if :: joins -> goto K0 :: else -> operation() fi };

A1:	W(d_step {
		if :: asked[me] == 0 -> ask_begins() :: else fi;
		VALUE(me, !SIDE(word[me])) = CHARGE(me) + size
	  });
#ifdef PLANT_LIMIT_EARLY /* before the announcement */
	R(lim = limit);
#endif
#ifdef PLANT_HIGH_EARLY
	R(top = high);
#endif
A2:	W(d_step { NO_WRAP; mine = ANNOUNCED(word[me]); word[me] = mine });

A3:
#if defined(NEWCOMER) && !defined(PLANT_HIGH_EARLY)
	W(top = high);
#endif
#ifndef PLANT_LIMIT_EARLY
	W(lim = limit; c = CHARGE(me); o = 0; j = FIRST);
#else
	W(c = CHARGE(me); o = 0; j = FIRST);
#endif
#ifdef NEWCOMER
	if :: j >= top -> goto A3_decide :: else fi;
#endif
A3_read:
#ifdef ONE_READ
	R(w = word[j]; v = CHARGE(j); x = VALUE(j, !SIDE(w));
#else
	R(w = word[j]);
	R(v = VALUE(j, SIDE(w)));
	if :: ASKING(w) -> R(x = VALUE(j, !SIDE(w))) :: else fi;
	R(if
	  :: word[j] != w -> d_step { w = 0; v = 0; x = 0 } goto A3_read
	  :: else -> d_step {
		/* An emptying may have zeroed x since it was read, if it is a dead one's. */
		torn = v != CHARGE(j) || (ASKING(w) && sits[j] && x != VALUE(j, !SIDE(w)));
		assert(!torn)
	    }
	  fi;
#endif
	  d_step {
		seen[j] = w;
		seen_charge[j] = v;
		if
		:: LEFT_OUT -> seen_charge[j] = 0
		:: else ->
			c = c + v;
			if :: ASKING(w) && x > v -> o = o + x - v :: else fi
		fi;
		w = 0; v = 0; x = 0;
		j = AFTER(j)
	  };
	  if :: j < top -> goto A3_read :: else -> goto A3_decide fi);
A3_decide:
	atomic {
		j = FIRST;
		if
		:: !FITS(REFUSED_FOR) ->
#ifdef PLANT_ASKS_REFUSE
			if :: FITS(c) -> goto A4_withdraw :: else fi;
#endif
			c = CHARGE(me); o = 0;
#ifdef PLANT_VALIDATE_FIRST
			d_step {
				do
				:: k < N -> counted[k] = seen_charge[k] > 0; k++
				:: else -> break
				od;
				k = 0
			}
			validate_on()
#elif defined(LIMITS)
			goto A4_limit
#else
			weigh_on()
#endif
		:: FITS(REFUSED_FOR) && FITS(WAITED_FOR) -> d_step { forget_collect() } goto A5
		:: FITS(REFUSED_FOR) && !FITS(WAITED_FOR) -> c = 0; o = 0; goto A7
		fi
	}

#ifdef PLANT_VALIDATE_FIRST
A4_weigh: R(d_step { j = FIRST; do :: k < N -> counted[k] = false; k++ :: else -> break od; k = 0 };
	  weigh_on());
#endif
#ifdef LIMITS /* else it is what it was */
A4_limit:
#ifdef PLANT_LIMIT_KEPT /* the one that the collect read */
	R(weigh_on());
#else
	R(lim = limit; weigh_on());
#endif
#endif
A4:	R(if
	  :: DEAD(j) -> dead_word[j] = seen[j]
	  :: else -> c = c + seen_charge[j]; counted[j] = true; j = AFTER(j); weigh_on()
	  fi);
	R(if :: !odd[j] -> weigh_on() :: else fi);
E1:	W(if :: byte_reap[j] == 0 -> byte_reap[j] = me + 1 :: else -> weigh_on() fi);
	R(if :: byte_seat[j] -> goto E_drop :: else fi);
	R(if :: !odd[j] -> goto E_drop :: else fi);
	EMPTY(E3, j);
E_drop:	W(byte_reap[j] = 0; weigh_on());

A4_validate:
	R(if
	  :: VERSION(word[j]) != VERSION(seen[j]) -> d_step { forget_collect() } goto A3
	  :: else -> j = AFTER(j)
	  fi;
	  validate_on());
A4_withdraw:
	W(d_step {
		if :: word[me] == mine -> word[me] = WITHDRAWN(mine) :: else fi;
		assert(no_room[me]);
		ask_ends();
		forget_ask();
		pc++
	  }
	  operation());

A5:
#ifdef PLANT_TWO_STEPS /* the grant first, the charge after */
	W(if
	  :: word[me] == mine -> word[me] = WITHDRAWN(mine); mine = word[me]
	  :: else -> mine = 0; goto A8
	  fi);
#endif
	W(if
	  :: word[me] == mine -> d_step {
		word[me] = FLIPPED(mine);
		held[me] = held[me] + size;
		over = SUM - FORCED_BESIDE(me) > MOST(me) || OVER_HELD;
		assert(!over);
		ask_ends();
		see_all();
		forget_ask();
		pc++
	    }
	    operation()
	  :: else -> mine = 0; goto A8
	  fi);

A7:
#ifdef PLANT_CANCELLED_CLEARS /* who was cancelled goes on cancelling others */
	R(clear_on());
#else
	R(if :: word[me] != mine -> d_step { forget_collect() } mine = 0; goto A8 :: else -> clear_on() fi);
#endif
A7_cancel:
	W(d_step {
		if :: word[j] == seen[j] -> word[j] = WITHDRAWN(seen[j]) :: else fi;
		j = AFTER(j)
	  }
	  clear_on());
A7_withdraw:
	W(d_step {
		if :: word[me] == mine -> word[me] = WITHDRAWN(mine) :: else fi;
		mine = 0
	  }
	  goto A8);

A8:	if :: me == 0 -> goto A1 :: else fi; /* j is 0 */
A8_look:
	R(d_step {
		w = word[j];
		if :: ASKING(w) -> seen[j] = w; counted[j] = true :: else fi;
		w = 0;
		j++
	  }
	  if
	  :: j < me -> goto A8_look
	  :: else ->
		j = 0;
		if :: !counted[0] && !counted[1] -> goto A1 :: else fi
	  fi);
	/* Polls until all have moved. A word never comes back, so looking at all of them at once finds
	 * what looking at one after the other finds. 1 ms is longer than a running asker needs: it
	 * passes over one that runs only `early` times. */
	if
	FAULTS
	:: atomic { !ANY_UNMOVED -> d_step { forget_collect() } goto A1 }
#ifndef PLANT_NO_CANCEL
	:: atomic { ANY_UNMOVED && !ANY_RUNS -> skip }
	:: atomic { ANY_RUNS && early > 0 -> if :: early < 99 -> early-- :: else fi }
#endif
	fi;
A8_cancel:
	W(d_step {
		if :: counted[j] && word[j] == seen[j] -> word[j] = WITHDRAWN(seen[j]) :: else fi;
		j++
	  }
	  if
	  :: j < me -> goto A8_cancel
	  :: else -> d_step { forget_collect() } goto A1
	  fi);

R1:	W(d_step { held[me] = held[me] - size; VALUE(me, !SIDE(word[me])) = CHARGE(me) - size });
R2:	W(d_step { word[me] = FLIPPED(word[me]); size = 0; pc++ } operation());

R1_forced:
#ifdef FORCED
	W(VALUE(me, !SIDE(word[me])) = CHARGE(me) + size);
	W(d_step {
		word[me] = FLIPPED(word[me]);
		held[me] = held[me] + size;
		do
		:: k < N -> if :: asked[k] > 0 -> forced[k] = forced[k] + size :: else fi; k++
		:: else -> break
		od;
		k = 0;
		see_all();
		size = 0;
		pc++
	  }
	  operation());
#endif

leave:	W(held[me] = 0);
	EMPTY(L3, me);
	W(d_step { sits[me] = false; byte_seat[me] = false; pc++ } goto left);
left:	atomic { if :: program[me * OPS + pc] != 0 -> goto K1 :: else -> goto done fi };

dead:	atomic { if :: births > 0 -> births--; goto K1 :: true -> goto done fi };

K0:	/* place_raise, place_try, seat_publish */
#ifdef NEWCOMER
	W(high = me + 1);
#endif
K1:	W(if :: byte_reap[me] == 0 -> byte_reap[me] = me + 1 :: else -> goto done fi); /* another place */
#ifdef PLANT_SEAT_BYTE_FIRST /* a claim locks it before the seat is empty */
	W(byte_seat[me] = true);
	EMPTY(K2, me);
	R(sits[me] = true);
#else
	EMPTY(K2, me);
K3:	W(d_step { byte_seat[me] = true; sits[me] = true });
#endif
K4:	W(odd[me] = true);
K7:	W(byte_reap[me] = 0; operation());

done:	atomic { finished[me] = true; pc = 0; goto end };
end_stopped:
	false;
end:	skip
}

#ifdef LIMITS
inline limit_set(bytes) {
	limit = bytes;
	do
	:: k < N -> if :: asked[k] > 0 && most[k] < limit -> most[k] = limit :: else fi; k++
	:: else -> break
	od;
	k = 0;
	see_all()
}

/* Orders and joiners that change the limit: one write each, whatever else they do. */
proctype Changing(byte first, second) {
	byte k;

	d_step { limit_set(first) }
	atomic {
		if
		:: second > 0 -> d_step { limit_set(second) }
		:: else
		fi
	}
}
#endif

/* A seat: who (0 sits there, 1 claims it first, 2 dead and nobody comes), charge so far, operations. */
#define SEAT(...) SEAT_(__VA_ARGS__)
#define SEAT_(k, who, charge, first, second, third) \
	word[k] = (charge > 0 -> 32 : 0); /* a word of 0 has never charged anything */ \
	value[2 * k + 1] = charge; \
	program[k * OPS] = first; program[k * OPS + 1] = second; program[k * OPS + 2] = third; \
	sits[k] = who == 0; byte_seat[k] = who == 0; held[k] = (who == 0 -> charge : 0); \
	odd[k] = who != 1 || charge > 0; \
	finished[k] = who == 2; \
	if :: who < 2 -> run Process(k, who == 1) :: else fi

init {
	byte k;

	atomic {
		SEAT(0, SEAT0);
		SEAT(1, SEAT1);
#if N == 3
		SEAT(2, SEAT2);
#endif
#ifdef LIMITS
		run Changing(LIMITS);
#endif
	}
#ifndef PROGRESS
	/* Nobody can go on any more. So all that haven't stopped must be through, with nothing pending, their
	 * charges as they hold, and no seat kept from others but by who stopped. */
	atomic {
		timeout ->
		do
		:: k < N ->
			assert(finished[k] || stopped[k]);
			assert(stopped[k] || !sits[k] || (!ASKING(word[k]) && CHARGE(k) == held[k]));
			assert(byte_reap[k] == 0 || stopped[byte_reap[k] - 1]);
			k++
		:: else -> break
		od
	}
#endif
}
