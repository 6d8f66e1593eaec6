package kappa;

import java.util.Arrays;

/**
 * Shapes of lines that were masked: of each place the classes of characters with which every mask would have gone the same way, and what the
 * template is made of. A line of a known shape needs no mask: its template is put together from its characters.
 *
 * <p>Nothing here changes a template; what is forgotten is masked again. All tasks of a process share it without a lock: a shape never
 * changes, and a task that does not see one yet masks the line.
 */
final class LineShapes {
  private static final int BUCKETS = 1 << 8;
  private static final int WAYS = 64; // shapes of a bucket
  private static final int MOST_SETS = 1 << 13;
  private static final int NUMBER_BITS = 14;
  private static final long ENOUGH = 16L << 20; // bytes of all shapes
  private static final int OVERHEAD = 100; // bytes of one
  static final int SAVED_BY_ONE = 8;
  private static final int SHAPE_COSTS = 64;
  private static final int MOST_SAVED = 1 << 16; // as many as a process makes at once when it starts
  private static final long FACTOR = 0x9E3779B97F4A7C15L;
  private static final String WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

  private final int[] rough = new int[LogTemplate.CLASS + 1]; // what counts of a class for where a shape is kept
  private volatile Content content = new Content();
  private int saved = MOST_SAVED; // by lines, less what the shapes cost

  /** `kinds` are the classes of ASCII in a table from there on. */
  LineShapes(int[] table, int kinds) {
    for (int kind = 0; kind < rough.length; kind++) {
      rough[kind] = kind + 1;
    }
    for (int i = 0; i < WORD.length(); i++) {
      rough[table[kinds + WORD.charAt(i)]] = 0;
    }
  }

  /** Where a line of so many places is kept: the same for all words of one length. */
  long key(long[] line, int n) {
    final int[] rough = this.rough;
    long key = n;
    for (int i = 1; i <= n; i++) {
      key = key * FACTOR + rough[(int) line[i] & LogTemplate.CLASS];
    }
    return key ^ key >>> 29 | 1;
  }

  /** The shape of a line, or null. */
  Shape find(long[] line, int n, long key) {
    final Content own = content;
    final int from = Content.bucket(key);
    for (int way = from; way < from + WAYS && own.keys[way] != 0; way++) {
      if (own.keys[way] == key) {
        final Shape shape = own.shapes[way];
        if (shape != null && shape.key == key && shape.sets.length == n && shape.fits(line, own.members)) {
          return shape;
        }
      }
    }
    return null;
  }

  /** Whether a line of this key came before, as far as is remembered. */
  boolean cameBefore(long key) {
    final int[] seen = content.seen;
    final int at = (int) (key >>> 7) & seen.length - 1;
    final int some = (int) (key >>> 32);
    final boolean before = seen[at] == some;
    seen[at] = some;
    return before;
  }

  /**
   * Whether to make another shape, which takes as long as masking five lines. A line of a known shape saves `SAVED_BY_ONE`, and one that is masked 1, so
   * that lines that are never alike cost a twelfth more at most; `more` was saved since the last question.
   */
  synchronized boolean pays(int more) {
    saved = Math.min(saved + more, MOST_SAVED);
    if (saved < SHAPE_COSTS) {
      return false;
    }
    saved -= SHAPE_COSTS;
    return true;
  }

  /** Take in a shape: the sets of the places 1 to n, and the characters of the template, negative where they are places of the line. */
  synchronized Shape add(long key, long[][] sets, int n, int[] made, int size) {
    Content own = content;
    if (own.bytes > ENOUGH || own.many + n >= MOST_SETS) {
      own = new Content();
      content = own;
    }
    short[] numbers = new short[n];
    for (int i = 0; i < n; i++) {
      numbers[i] = own.number(sets[0][i + 1], sets[1][i + 1]);
    }
    Shape shape = new Shape(key, numbers, Arrays.copyOf(made, size));
    final int from = Content.bucket(key);
    int way = from;
    while (way < from + WAYS && own.keys[way] != 0) {
      way++;
    }
    if (way == from + WAYS) {
      way = from + (own.next++ & WAYS - 1);
      own.bytes -= own.shapes[way].bytes();
    }
    own.shapes[way] = shape;
    own.keys[way] = key;
    own.bytes += shape.bytes();
    return shape;
  }

  static final class Shape {
    final long key;
    final short[] sets; // for each place the number of its set
    private int other = 0; // a place where another line did not fit: of many of one key most do not fit there
    final int[] made; // the template before it is trimmed: characters, and places of the line below 0

    Shape(long key, short[] sets, int[] made) {
      this.key = key;
      this.sets = sets;
      this.made = made;
    }

    boolean fits(long[] line, byte[] members) {
      if (!fits(line[other + 1], sets[other], members)) {
        return false;
      }
      for (int i = 0; i < sets.length; i++) {
        if (!fits(line[i + 1], sets[i], members)) {
          other = i;
          return false;
        }
      }
      return true;
    }

    private static boolean fits(long place, int set, byte[] members) {
      return members[set * ClassSets.MOST + ((int) place & LogTemplate.CLASS)] != 0;
    }

    int bytes() {
      return OVERHEAD + 2 * sets.length + 4 * made.length;
    }
  }

  private static final class Content {
    final Shape[] shapes = new Shape[BUCKETS * WAYS];
    final long[] keys = new long[BUCKETS * WAYS]; // of the shapes
    final byte[] members = new byte[MOST_SETS * ClassSets.MOST]; // for each set and class 1 where it is a member
    final int[] seen = new int[1 << 14];
    final long[] lows = new long[MOST_SETS]; // of each set, from 1 on
    final long[] highs = new long[MOST_SETS];
    final short[] numbers = new short[1 << NUMBER_BITS]; // of sets, by their bits
    int many = 0; // sets
    long bytes = 0;
    int next = 0;

    static int bucket(long key) {
      return (int) (key >>> 40) % BUCKETS * WAYS;
    }

    /** The number of a set, which is made for a new one. */
    short number(long low, long high) {
      int at = (int) ((low * FACTOR ^ high) * FACTOR >>> Long.SIZE - NUMBER_BITS);
      while (numbers[at] != 0 && (lows[numbers[at]] != low || highs[numbers[at]] != high)) {
        at = at + 1 & numbers.length - 1;
      }
      if (numbers[at] == 0) {
        many++;
        numbers[at] = (short) many;
        lows[many] = low;
        highs[many] = high;
        for (int kind = 0; kind < ClassSets.MOST; kind++) {
          members[many * ClassSets.MOST + kind] = (byte) ((kind < ClassSets.MOST / 2 ? low : high) >>> kind & 1);
        }
      }
      return numbers[at];
    }
  }
}
