package kappa;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

/** Points by window and series, which are handed out as rows of WINDOW (end, ms), BUCKET and BLOCK. */
final class WindowSums {
  static final int PARTS = 3; // of a row that is handed out
  private static final long ENOUGH = 32L << 20; // bytes of the arrays of all windows that wait in memory

  private final long windowMillis;
  private final int most;
  private final long capacity;
  private final Map windows = new HashMap(); // end, ms -> SeriesSums
  private SeriesSums last;
  private long bytes = 0; // of all windows
  private ArrayDeque full = new ArrayDeque(); // of windows that are handed out
  private final ArrayDeque blocks = new ArrayDeque(); // of one of them

  /** What is needed of a host and of all hosts of a bucket, as in `HostShares`. */
  WindowSums(long windowMillis, int most, long capacity) {
    this.windowMillis = windowMillis;
    this.most = most;
    this.capacity = capacity;
  }

  /** Add a point: its time in microseconds, its name, its value, where it was read. Hands out all windows where they are many. */
  void add(long micros, byte[] name, int length, double value, int partition, long offset) {
    SeriesSums sums = window(Admission.window(micros, windowMillis));
    long order = PointNumbers.order(1000L * windowMillis, micros, offset, partition);
    if (sums.add(name, length, value, order)) {
      bytes += sums.grown();
    }
    if (bytes >= ENOUGH) {
      handOut();
    }
  }

  private SeriesSums window(long end) {
    if (last == null || last.end != end) {
      last = (SeriesSums) windows.get(Long.valueOf(end));
      if (last == null) {
        last = new SeriesSums(end);
        bytes += last.grown();
        windows.put(Long.valueOf(end), last);
      }
    }
    return last;
  }

  /** Begin to hand out all windows. */
  void handOut() {
    full.addAll(windows.values());
    windows.clear();
    last = null;
    bytes = 0;
  }

  /** Whether there is a row to hand out. */
  boolean hasRow() {
    while (blocks.isEmpty() && !full.isEmpty()) {
      SeriesSums sums = (SeriesSums) full.poll();
      byte[][] made = sums.blocks(most, capacity);
      for (int bucket = 0; bucket < made.length; bucket++) {
        if (made[bucket] != null) {
          blocks.add(new Object[] {Long.valueOf(sums.end), Long.valueOf(bucket), made[bucket]});
        }
      }
    }
    return !blocks.isEmpty();
  }

  /** WINDOW, BUCKET and BLOCK, where there is a row. */
  Object[] row() {
    return (Object[]) blocks.poll();
  }
}
