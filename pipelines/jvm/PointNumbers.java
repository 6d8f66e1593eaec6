package kappa;

/**
 * What is kept of the points of a series and window: so many longs, wherever they begin in an array. Doubles are kept by their bits.
 *
 * <p>Sums do not depend on the order of addition: a value is cut into whole multiples of each scale, which are added as longs. A double
 * is the exact sum of its multiples down to the last scale, below which it is cut off. Values are at most 1e15 (pipelines/inputs), squares
 * 1e30, so that no sum of fewer than 1e8 points can overflow.
 */
final class PointNumbers {
  static final int COUNT = 0;
  static final int ORDER = 1; // of the last value
  static final int LEAST = 2;
  static final int MOST = 3;
  static final int LAST = 4;
  private static final int SUMS = 5;
  private static final double UP = 4294967296.0; // 2 ** 32
  private static final double[] SCALES = {UP, 1.0, 1.0 / UP, 1.0 / UP / UP};
  private static final double[] SQUARES = {UP * UP, UP, 1.0, 1.0 / UP, 1.0 / UP / UP};
  static final int SIZE = SUMS + SCALES.length + SQUARES.length;
  private static final byte[] COUNTER = {'c', 'o', 'u', 'n', 't', 'e', 'r', '/'};

  // The last value is that with the largest order: 24 bits of event time within the window, 33 of offset, 6 of partition.
  private static final int TIME_BITS = 24;
  private static final int OFFSET_BITS = 33;
  private static final int PARTITION_BITS = 6;

  private PointNumbers() {}

  /** The order of a point: event time within the window, then offset, then partition. Windows and times in microseconds. */
  static long order(long window, long micros, long offset, int partition) {
    long resolution = ((window - 1) >> TIME_BITS) + 1;
    return (Math.floorMod(micros, window) / resolution << (OFFSET_BITS + PARTITION_BITS))
        + ((offset & ((1L << OFFSET_BITS) - 1)) << PARTITION_BITS)
        + (partition & ((1L << PARTITION_BITS) - 1));
  }

  /** Whether a name is that of a counter, of which values are no levels: nothing is summed. */
  static boolean isCounter(byte[] name, int from, int length) {
    for (int i = 0; i < COUNTER.length; i++) {
      if (i >= length || name[from + i] != COUNTER[i]) {
        return false;
      }
    }
    return true;
  }

  /** Of no points. */
  static void clear(long[] numbers, int at) {
    for (int i = at; i < at + SIZE; i++) {
      numbers[i] = 0;
    }
    numbers[at + ORDER] = Long.MIN_VALUE;
    numbers[at + LEAST] = Double.doubleToRawLongBits(Double.POSITIVE_INFINITY);
    numbers[at + MOST] = Double.doubleToRawLongBits(Double.NEGATIVE_INFINITY);
  }

  /** Add a point. */
  static void add(long[] numbers, int at, double number, boolean counter, long order) {
    double value = number + 0.0; // -0.0 is 0.0: which of them is the least depends on their order
    double level = counter ? 0.0 : value;
    numbers[at + COUNT]++;
    addMultiples(numbers, at + SUMS, level, SCALES);
    addMultiples(numbers, at + SUMS + SCALES.length, level * level, SQUARES);
    extend(numbers, at, value, value, value, order);
  }

  /** Add what is kept of other points, which were read later. */
  static void add(long[] numbers, long[] other) {
    numbers[COUNT] += other[COUNT];
    for (int i = SUMS; i < SIZE; i++) {
      numbers[i] += other[i];
    }
    extend(numbers, 0, number(other, LEAST), number(other, MOST), number(other, LAST), other[ORDER]);
  }

  private static void extend(long[] numbers, int at, double least, double most, double last, long order) {
    numbers[at + LEAST] = Double.doubleToRawLongBits(Math.min(number(numbers, at + LEAST), least));
    numbers[at + MOST] = Double.doubleToRawLongBits(Math.max(number(numbers, at + MOST), most));
    if (order >= numbers[at + ORDER]) { // of the points of a record the last one
      numbers[at + ORDER] = order;
      numbers[at + LAST] = Double.doubleToRawLongBits(last);
    }
  }

  private static void addMultiples(long[] numbers, int from, double value, double[] scales) {
    double rest = value;
    for (int i = 0; i < scales.length; i++) {
      // towards zero: rounded down, the rest of a small negative number would be near the scale, without its last digits
      long whole = (long) (rest / scales[i]);
      numbers[from + i] += whole;
      rest -= whole * scales[i];
    }
  }

  static double number(long[] numbers, int at) {
    return Double.longBitsToDouble(numbers[at]);
  }

  static double mean(long[] numbers) {
    return together(numbers, SUMS, SCALES) / numbers[COUNT];
  }

  /** The sum of squared distances from the mean. */
  static double distances(long[] numbers) {
    if (numbers[COUNT] < 2) {
      return 0.0;
    }
    double total = together(numbers, SUMS, SCALES);
    return Math.max(together(numbers, SUMS + SCALES.length, SQUARES) - total * total / numbers[COUNT], 0.0);
  }

  private static double together(long[] numbers, int from, double[] scales) {
    double sum = numbers[from] * scales[0];
    for (int i = 1; i < scales.length; i++) {
      sum += numbers[from + i] * scales[i];
    }
    return sum;
  }
}
