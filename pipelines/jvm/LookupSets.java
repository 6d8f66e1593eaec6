package kappa;

import java.util.Arrays;

/**
 * For each place of a line, the character classes for which all lookups in a table of masks would have had the same results.
 *
 * <p>Classes and tables: models/templates/pattern_program.py. A set of classes has a bit for each, in two longs; the sets of all places are two
 * arrays. A set loses members with each lookup. It may end smaller than it could be, never larger.
 */
final class LookupSets {
  static final int MOST = 128; // classes
  private static final int HALF = 64;
  private static final int FOUND_BITS = 13;
  private static final int FACTOR = 0x9E3779B1;

  private final int[] t;
  private final int count;
  private final int starts;
  private final int seconds;
  private final int rare;
  private final int[] needed = new int[Integer.SIZE]; // the rare set that a mask needs, by its bit; 0 for none
  private final Classes[] sameBefore; // for each class those with the same row in `starts`
  private final Classes[] sameFirst; // and in `seconds`
  private final Found[] found = new Found[1 << FOUND_BITS]; // some that were looked for; without a lock, since none ever changes

  /** `classes` is how many the table has; the others are addresses of its parts. */
  LookupSets(int[] table, int classes, int startsAt, int secondsAt, int rareAt, int allowedAt) {
    t = table;
    count = classes;
    starts = startsAt;
    seconds = secondsAt;
    rare = rareAt;
    sameBefore = sameRows(starts);
    sameFirst = sameRows(seconds);
    int sets = 0;
    for (int kind = 0; kind < count; kind++) {
      sets |= Math.max(t[rare + kind], 0);
    }
    for (int left = sets; left != 0; left &= left - 1) {
      final int set = Integer.lowestOneBit(left);
      for (int masks = t[allowedAt + set] & ~t[allowedAt]; masks != 0; masks &= masks - 1) {
        needed[Integer.numberOfTrailingZeros(masks)] = set;
      }
    }
  }

  private Classes[] sameRows(int rows) {
    Classes[] same = new Classes[count];
    for (int one = 0; one < count; one++) {
      final int[] row = Arrays.copyOfRange(t, rows + one * count, rows + (one + 1) * count);
      long[] bits = new long[2];
      for (int other = 0; other < count; other++) {
        if (Arrays.equals(row, Arrays.copyOfRange(t, rows + other * count, rows + (other + 1) * count))) {
          bits[other / HALF] |= 1L << other;
        }
      }
      same[one] = new Classes(bits);
    }
    return same;
  }

  /** Sets of all classes for the places 1 to `n`. */
  static long[][] ofAll(int n) {
    long[][] sets = new long[2][n + 1];
    Arrays.fill(sets[0], -1L);
    Arrays.fill(sets[1], -1L);
    return sets;
  }

  /** After the lookup of a place's class from an address on. */
  void keepSame(long[][] sets, long place, int base) {
    keep(sets, place, equal(base, -1, t[base + LogTemplate.kind(place)]));
  }

  /** After a mask, by its bit, was found to begin at a place of a line: what `starts` says of it. Its match looks up all else. */
  void keepBeginning(long[][] sets, long[] line, int i, int mask) {
    final int before = LogTemplate.kind(line[i - 1]);
    keep(sets, line[i - 1], sameBefore[before]);
    keep(sets, line[i], equal(starts + before * count, mask, mask));
  }

  /** After some masks were found not to begin where `line` says so: the character before a place, it and the next one, or the rest of its word rule each out. */
  void keepOthers(long[][] sets, long[] line, int n, int masks) {
    int lacking = 0; // the rare sets of which the rest of the word has no member
    for (int i = 1; i <= n; i++) {
      final int before = LogTemplate.kind(line[i - 1]);
      final int here = LogTemplate.kind(line[i]);
      final int byStarts = masks & ~t[starts + before * count + here];
      final int bySeconds = masks & ~byStarts & ~t[seconds + here * count + LogTemplate.kind(line[i + 1])];
      if (byStarts != 0) {
        keep(sets, line[i - 1], sameBefore[before]);
        keep(sets, line[i], equal(starts + before * count, byStarts, 0));
      }
      if (bySeconds != 0) {
        keep(sets, line[i], sameFirst[here]);
        keep(sets, line[i + 1], equal(seconds + here * count, bySeconds, 0));
      }
      if (t[rare + here] < 0) {
        keepSame(sets, line[i], rare); // where a word ends
        lacking = 0;
      } else {
        for (int left = masks & ~byStarts & ~bySeconds & ~LogTemplate.masks(line[i]); left != 0; left &= left - 1) {
          lacking |= needed[Integer.numberOfTrailingZeros(left)];
        }
        keep(sets, line[i], equal(rare, lacking, 0));
      }
    }
  }

  /** Leave these classes in the set of a place; it is not in a set where its character is not of the line as it was read. */
  private static void keep(long[][] sets, long place, Classes classes) {
    final int at = LogTemplate.readAt(place);
    sets[0][at] &= classes.low;
    sets[1][at] &= classes.high;
  }

  /** The classes for which some bits of the table from an address on are as wanted. */
  private Classes equal(int base, int bits, int wanted) {
    final int at = ((bits * 31 + wanted) * 31 + base) * FACTOR >>> Integer.SIZE - FOUND_BITS;
    Found known = found[at];
    if (known == null || known.base != base || known.bits != bits || known.wanted != wanted) {
      long[] of = new long[2];
      for (int kind = 0; kind < count; kind++) {
        of[kind / HALF] |= (t[base + kind] & bits) == wanted ? 1L << kind : 0;
      }
      known = new Found(base, bits, wanted, new Classes(of));
      found[at] = known;
    }
    return known.classes;
  }

  private static final class Classes {
    final long low;
    final long high;

    Classes(long[] bits) {
      low = bits[0];
      high = bits[1];
    }
  }

  private static final class Found {
    final int base;
    final int bits;
    final int wanted;
    final Classes classes;

    Found(int base, int bits, int wanted, Classes classes) {
      this.base = base;
      this.bits = bits;
      this.wanted = wanted;
      this.classes = classes;
    }
  }
}
