package kappa;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Rows of metrics of the topic "statistics", column by column, as `detect` reads them without parsing.
 *
 * <p>Little-endian: MARK, three zeros and the number of rows n (int); `window_end` and `n` (long); mean, m2, min, max, last, peers,
 * peers_lower, peers_median, peers_upper (double); where each name begins, and where the last one ends (n + 1 ints); the names, UTF-8.
 */
final class MetricColumns {
  static final byte MARK = 1; // no line of JSON begins so
  static final int NUMBERS = 9;
  private static final int HEADER = 8;
  private static final int ROW = 8 * (2 + NUMBERS) + 4; // bytes, without the name

  private int rows = 0;
  private long[] ends = new long[64], counts = new long[64];
  private double[] numbers = new double[64 * NUMBERS]; // row by row
  private int[] begins = new int[65];
  private byte[] names = new byte[4096];

  /** A row; its name is the first bytes of `name`. */
  void add(long end, long n, double[] row, byte[] name, int length) {
    if (rows == ends.length) {
      ends = Arrays.copyOf(ends, 2 * rows);
      counts = Arrays.copyOf(counts, 2 * rows);
      numbers = Arrays.copyOf(numbers, 2 * rows * NUMBERS);
      begins = Arrays.copyOf(begins, 2 * rows + 1);
    }
    int from = begins[rows];
    if (from + length > names.length) {
      names = Arrays.copyOf(names, Math.max(2 * names.length, from + length));
    }
    ends[rows] = end;
    counts[rows] = n;
    System.arraycopy(row, 0, numbers, rows * NUMBERS, NUMBERS);
    System.arraycopy(name, 0, names, from, length);
    begins[++rows] = from + length;
  }

  /** How many bytes `take` answers. */
  int size() {
    return rows == 0 ? 0 : HEADER + rows * ROW + 4 + begins[rows];
  }

  /** The rows, which are forgotten. */
  byte[] take() {
    ByteBuffer out = ByteBuffer.allocate(size()).order(ByteOrder.LITTLE_ENDIAN);
    out.put(MARK).put((byte) 0).put((byte) 0).put((byte) 0).putInt(rows);
    for (int i = 0; i < rows; i++) {
      out.putLong(ends[i]);
    }
    for (int i = 0; i < rows; i++) {
      out.putLong(counts[i]);
    }
    for (int column = 0; column < NUMBERS; column++) {
      for (int i = 0; i < rows; i++) {
        out.putDouble(numbers[i * NUMBERS + column]);
      }
    }
    for (int i = 0; i <= rows; i++) {
      out.putInt(begins[i]);
    }
    out.put(names, 0, begins[rows]);
    rows = 0;
    return out.array();
  }
}
