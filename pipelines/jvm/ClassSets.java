package kappa;

/**
 * Sets of classes of characters that a table of masks does not tell apart, where it is asked one thing: a bit each, in two longs.
 *
 * <p>A set may be smaller than it could be, never larger.
 */
final class ClassSets {
  static final int MOST = 128; // classes
  private static final int HALF = 64;
  private static final int FOUND_BITS = 12;
  private static final int FACTOR = 0x9E3779B1;

  private final int[] t;
  private final int count;
  private final int starts;
  private final int seconds;
  private final int rare;
  private final int[] needed = new int[Integer.SIZE]; // the rare set that a mask needs, by its bit; 0 for none
  // of what can be asked with one class: those with the same answer, by the place of the answer in the table
  private final long[] low;
  private final long[] high;
  // of the last questions about several bits; without a lock, as `low` and `high`: a task that sees a part of a set leaves a smaller one
  private final Without[] found = new Without[1 << FOUND_BITS];
  private final long[][] sameBefore = new long[2][]; // classes with the same row in `starts`
  private final long[][] sameFirst = new long[2][]; // and in `seconds`
  // for each mask the classes that never are at its second place
  private final long[][] neverSecond = new long[2][];

  ClassSets(int[] table, int classes, int startsAt, int secondsAt, int rareAt, int allowedAt) {
    t = table;
    count = classes;
    starts = startsAt;
    seconds = secondsAt;
    rare = rareAt;
    int sets = 0;
    for (int kind = 0; kind < count; kind++) {
      sets |= Math.max(t[rare + kind], 0);
    }
    for (int left = sets; left != 0; left &= left - 1) {
      for (int mask = 0; mask < Integer.SIZE; mask++) {
        if ((t[allowedAt + Integer.lowestOneBit(left)] & ~t[allowedAt] & 1 << mask) != 0) {
          needed[mask] = Integer.lowestOneBit(left);
        }
      }
    }
    low = new long[t.length];
    high = new long[t.length];
    rows(sameBefore, starts);
    rows(sameFirst, seconds);
    never();
  }

  private void rows(long[][] to, int table) {
    to[0] = new long[count];
    to[1] = new long[count];
    for (int one = 0; one < count; one++) {
      for (int other = 0; other < count; other++) {
        int i = 0;
        while (i < count && t[table + one * count + i] == t[table + other * count + i]) {
          i++;
        }
        if (i == count) {
          to[other / HALF][one] |= 1L << other;
        }
      }
    }
  }

  private void never() {
    neverSecond[0] = new long[Integer.SIZE];
    neverSecond[1] = new long[Integer.SIZE];
    for (int second = 0; second < count; second++) {
      int any = 0;
      for (int here = 0; here < count; here++) {
        any |= t[seconds + here * count + second];
      }
      for (int mask = 0; mask < Integer.SIZE; mask++) {
        if ((any & 1 << mask) == 0) {
          neverSecond[second / HALF][mask] |= 1L << second;
        }
      }
    }
  }

  /** Leave in the sets of a place what is answered as for this class. */
  void keepAlike(long[][] sets, int place, int base, int kind) {
    final int at = base + kind;
    if ((low[at] | high[at]) == 0) {
      for (int other = 0; other < count; other++) {
        if (t[base + other] == t[at]) {
          if (other < HALF) {
            low[at] |= 1L << other;
          } else {
            high[at] |= 1L << other;
          }
        }
      }
    }
    sets[0][place] &= low[at];
    sets[1][place] &= high[at];
  }

  /** The rare sets that these masks need. */
  int needed(int masks) {
    int found = 0;
    for (int left = masks; left != 0; left &= left - 1) {
      found |= needed[Integer.numberOfTrailingZeros(left)];
    }
    return found;
  }

  /** Leave in the sets of a place what is a member of none of these rare sets. */
  void keepWithoutRare(long[][] sets, int place, int those) {
    keepWithout(sets, place, rare, those);
  }

  /**
   * Leave in the sets of three places that follow each other what begins none of these masks where their classes begin none. The numbers of
   * places are 0 where their characters are not of the line.
   */
  void keepNone(long[][] sets, int[] places, int before, int here, int second, int masks) {
    final int byStart = t[starts + before * count + here];
    final int bySecond = t[seconds + here * count + second];
    if ((masks & ~byStart) != 0) {
      keep(sets, places[0], sameBefore, before);
      keepWithout(sets, places[1], starts + before * count, masks & ~byStart);
    }
    int others = 0;
    for (int left = masks & byStart & ~bySecond; left != 0; left &= left - 1) {
      final int mask = Integer.numberOfTrailingZeros(left);
      if ((neverSecond[second / HALF][mask] & 1L << second) != 0) {
        keep(sets, places[2], neverSecond, mask);
      } else {
        others |= 1 << mask;
      }
    }
    if (others != 0) {
      keep(sets, places[1], sameFirst, here);
      keepWithout(sets, places[2], seconds + here * count, others);
    }
  }

  /** The same for one mask, which begins there: leave what begins it. */
  void keepBeginning(long[][] sets, int[] places, int before, int here, int second, int mask) {
    keep(sets, places[0], sameBefore, before);
    keep(sets, places[1], sameFirst, here);
    for (int other = 0; other < count; other++) {
      if ((t[starts + before * count + other] & mask) == 0) {
        sets[other / HALF][places[1]] &= ~(1L << other);
      }
      if ((t[seconds + here * count + other] & mask) == 0) {
        sets[other / HALF][places[2]] &= ~(1L << other);
      }
    }
  }

  private static void keep(long[][] sets, int place, long[][] of, int index) {
    sets[0][place] &= of[0][index];
    sets[1][place] &= of[1][index];
  }

  /** Leave in the sets of a place the classes for which none of these bits is in the table. */
  private void keepWithout(long[][] sets, int place, int base, int bits) {
    final int at = (bits * 31 + base) * FACTOR >>> Integer.SIZE - FOUND_BITS;
    Without without = found[at];
    if (without == null || without.base != base || without.bits != bits) {
      long[] left = new long[2];
      for (int other = 0; other < count; other++) {
        left[other / HALF] |= (t[base + other] & bits) == 0 ? 1L << other : 0;
      }
      without = new Without(base, bits, left[0], left[1]);
      found[at] = without;
    }
    sets[0][place] &= without.low;
    sets[1][place] &= without.high;
  }

  private static final class Without {
    final int base;
    final int bits;
    final long low;
    final long high;

    Without(int base, int bits, long low, long high) {
      this.base = base;
      this.bits = bits;
      this.low = low;
      this.high = high;
    }
  }
}
