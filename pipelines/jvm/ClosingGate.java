package kappa;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.TopicPartition;

/**
 * Opens when a window can be closed, because every partition has a record that is as old as the watermark's delay after its end.
 *
 * <p>The batch that begins then reads the window's last records and closes it as well, where the gate can know that it reads all of them: then
 * the gate raises the query's watermark, as Spark itself does when a batch has ended. Otherwise the batch after it closes the window.
 *
 * <p>It opens before that for what need not be read while a closing waits: at half of what a batch takes of a partition, and once more so
 * that the batch has just ended when a window can be closed.
 */
public class ClosingGate extends Gate {
  private static final long ENOUGH = 50000L; // they are read in a tenth of a second; a batch costs several for its plan
  private static final long SOON_MS = 50L; // a window's last records are on their way

  private final long window;
  private final long delay;
  private final Map most;
  private final boolean appendTimes;
  private long closed = Long.MIN_VALUE;
  private boolean moved;

  /**
   * `window` and `delay` of the watermark are in milliseconds, `most` is how many records a batch reads of each of `names`. Without
   * `appendTimes` the latest time of a partition may be of no record: nothing is known beforehand.
   */
  public ClosingGate(Map client, List names, long window, long delay, Map most, boolean appendTimes) {
    super(client, names);
    this.window = window;
    this.delay = delay;
    this.most = new HashMap(most);
    this.appendTimes = appendTimes;
  }

  /** The last time up to another one at which a window could be closed: its end and the delay. */
  private long latest(long time) {
    return Math.floorDiv(time - delay, window) * window + delay;
  }

  /**
   * Of so many records that wait, where a window can be closed in `left` ms and the last batch took `took` ms. `full` is the largest share that
   * waits of what a batch takes of a partition.
   */
  public static boolean isWorthABatch(long waiting, double full, long left, long took) {
    return left > took && (full >= 0.5 || (waiting >= ENOUGH && left <= 2L * took));
  }

  /** A batch that has read a window's last records and could not close it has moved the watermark: the one after it closes the window. */
  @Override
  protected boolean follows() {
    boolean next = moved;
    moved = false;
    return next;
  }

  @Override
  protected long closedFor(long now) throws InterruptedException, ExecutionException, TimeoutException {
    long time = time();
    Map ends = ends(); // asked for after the time: the records that have it are before these ends
    Map next = nextOffsets();
    long waiting = 0L;
    double full = 0.0;
    for (Iterator all = ends.keySet().iterator(); all.hasNext();) {
      TopicPartition part = (TopicPartition) all.next();
      Long begin = (Long) next.get(part);
      long unread = begin == null ? 0L : offset(ends, part) - begin.longValue();
      waiting += unread;
      full = Math.max(full, unread / ((Number) most.get(part.topic() + "/" + part.partition())).doubleValue());
    }
    long closable = latest(time);
    if (time >= 0L && closable > closed) {
      closed = closable;
      moved = !appendTimes || full > 1.0 || !next.keySet().containsAll(ends.keySet()) || query().isIdle();
      if (!moved) {
        query().raiseWatermark(time - delay);
      }
      return 0L;
    }
    // The log's time is not this machine's, but seldom far from it.
    long due = latest(now);
    if (due > closed && now - due < PAUSE_MS) {
      return SOON_MS;
    }
    long left = due + window - now;
    if (isWorthABatch(waiting, full, left, took())) {
      return 0L;
    }
    long until = left > 2L * took() ? left - 2L * took() : left;
    return Math.min(PAUSE_MS, Math.max(1L, until));
  }

  private Map nextOffsets() {
    try {
      return query() == null ? Collections.EMPTY_MAP : query().nextOffsets();
    } catch (IOException foreign) {
      throw new UncheckedIOException(foreign);
    }
  }
}
