package kappa;

/**
 * A cache of the shapes of lines that were masked. A shape has for each place the character classes with which each mask would have done the same
 * (`LookupSets`), and what the template is made of. A line of a known shape needs no mask: its template is put together from its characters.
 *
 * <p>Nothing here changes a template; a line whose shape was evicted is masked again. All tasks of a process share the cache and look shapes up
 * without a lock: what they read of a shape never changes, and a task that does not see one yet masks the line.
 */
final class LineShapes {
  private static final int BUCKETS = 1 << 8;
  private static final int WAYS = 64; // shapes of a bucket; when it is full, they are evicted in turn
  private static final int MOST_SETS = 1 << 13;
  private static final int NUMBER_BITS = 14;
  private static final long ENOUGH = 16L << 20; // bytes of all shapes
  private static final int OVERHEAD = 100; // bytes of one
  // What a shape costs and a line of a known shape saves, where a line that is masked saves 1
  private static final int SHAPE_COSTS = 64;
  static final int SAVED_BY_ONE = 8;
  private static final int MOST_SAVED = 1 << 16; // what there is at the start
  private static final long FACTOR = 0x9E3779B97F4A7C15L;
  private static final long SQUARE = FACTOR * FACTOR, CUBE = SQUARE * FACTOR, FOURTH = CUBE * FACTOR;

  private final int[] coarse = new int[256]; // for each class a number, which letters, digits and `_` share
  private volatile Content content = new Content();
  private volatile int saved = MOST_SAVED; // by all tasks, less what the shapes cost

  /** From address `kinds` on the table has the class of each character of ASCII. */
  LineShapes(int[] table, int kinds) {
    for (int kind = 0; kind < coarse.length; kind++) {
      coarse[kind] = kind + 1;
    }
    for (int c = 0; c < 128; c++) {
      if (c == '_' || Character.isLetterOrDigit((char) c)) {
        coarse[table[kinds + c]] = 0;
      }
    }
  }

  /** A hash of a line, never 0: the same for all words of one length. */
  long key(long[] line, int n) {
    final int[] coarse = this.coarse;
    long key = n;
    int i = 1;
    for (; i + 3 <= n; i += 4) { // four at a time, as each product waits for the one before
      final long first = coarse[LogTemplate.kind(line[i])] * CUBE + coarse[LogTemplate.kind(line[i + 1])] * SQUARE;
      final long second = coarse[LogTemplate.kind(line[i + 2])] * FACTOR + coarse[LogTemplate.kind(line[i + 3])];
      key = key * FOURTH + (first + second);
    }
    for (; i <= n; i++) {
      key = key * FACTOR + coarse[LogTemplate.kind(line[i])];
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
        if (shape != null && shape.sets.length == n && shape.fits(line, own.members)) {
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
   * Whether a task that has saved `own` is to make another shape, which uses that up. Making one takes as long as masking five lines, so where no
   * two lines are alike masking takes a twelfth longer at most.
   */
  boolean pays(long own) {
    if (saved + own < SHAPE_COSTS) {
      return false; // without the lock, which each such line would take
    }
    synchronized (this) {
      final long left = saved + own - SHAPE_COSTS;
      saved = left < 0 ? saved : (int) Math.min(left, MOST_SAVED);
      return left >= 0;
    }
  }

  /** Take in a shape: the sets of the places 1 to n, and the characters of the template, negative where they are places of the line. */
  synchronized Shape add(long key, long[][] sets, int n, int[] template) {
    Content own = content;
    if (own.bytes > ENOUGH || own.many + n >= MOST_SETS) {
      own = new Content();
      content = own;
    }
    short[] numbers = new short[n];
    for (int i = 0; i < n; i++) {
      numbers[i] = own.number(sets[0][i + 1], sets[1][i + 1]);
    }
    Shape shape = new Shape(numbers, template);
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
    final short[] sets; // for each place the number of its set
    final int[] template; // before it is trimmed: characters, and places of the line below 0
    private int mismatch = 0; // where the last line that did not fit differed: the next one is likely to differ there

    Shape(short[] sets, int[] template) {
      this.sets = sets;
      this.template = template;
    }

    boolean fits(long[] line, byte[] members) {
      if (!fits(line[mismatch + 1], sets[mismatch], members)) {
        return false;
      }
      for (int i = 0; i < sets.length; i++) {
        if (!fits(line[i + 1], sets[i], members)) {
          mismatch = i;
          return false;
        }
      }
      return true;
    }

    private static boolean fits(long place, int set, byte[] members) {
      return members[set * LookupSets.MOST + LogTemplate.kind(place)] != 0;
    }

    int bytes() {
      return OVERHEAD + 2 * sets.length + 4 * template.length;
    }
  }

  private static final class Content {
    final Shape[] shapes = new Shape[BUCKETS * WAYS];
    final long[] keys = new long[BUCKETS * WAYS]; // of the shapes
    final byte[] members = new byte[MOST_SETS * LookupSets.MOST]; // for each set and class 1 where it is a member
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
        for (int kind = 0; kind < LookupSets.MOST; kind++) {
          members[many * LookupSets.MOST + kind] = (byte) ((kind < LookupSets.MOST / 2 ? low : high) >>> kind & 1);
        }
      }
      return numbers[at];
    }
  }
}
