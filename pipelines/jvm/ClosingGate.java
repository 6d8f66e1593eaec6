package kappa;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;

/**
 * Opens when a window can be closed, because every partition has a record that is as old as the watermark's delay after its end, and
 * when as many records wait that a batch of their own costs little more than reading them with others, unless a window can be closed
 * before such a batch would have ended: its closing would wait.
 */
public class ClosingGate extends Gate {
  private static final long ENOUGH = 5000L;
  private static final long SOON_MS = 50L; // a window's last records are on their way

  private final long window;
  private final long delay;
  private long closed = Long.MIN_VALUE;
  private boolean moved;
  private long read;

  /** `window` and `delay` of the watermark are in milliseconds. */
  public ClosingGate(Map client, List names, long window, long delay) {
    super(client, names);
    this.window = window;
    this.delay = delay;
  }

  /** The last time up to another one at which a window could be closed: its end and the delay. */
  private long latest(long time) {
    return Math.floorDiv(time - delay, window) * window + delay;
  }

  /** Of so many records that wait, where a window can be closed in `left` ms and the last batch took `took` ms. */
  public static boolean isWorthABatch(long waiting, long left, long took) {
    return waiting >= ENOUGH && left > took;
  }

  /** The batch that has read a window's last records moves the watermark, and the one after it closes the window. */
  @Override
  protected boolean follows() {
    boolean next = moved;
    moved = false;
    return next;
  }

  @Override
  protected long closedFor(long now) throws InterruptedException, ExecutionException, TimeoutException {
    long time = time();
    long closable = latest(time);
    if (time >= 0L && closable > closed) {
      closed = closable;
      moved = true;
      return 0L;
    }
    // The log's time is not this machine's, but seldom far from it.
    long due = latest(now);
    if (due > closed && now - due < PAUSE_MS) {
      return SOON_MS;
    }
    long left = due + window - now;
    return isWorthABatch(ends() - read, left, took()) ? 0L : Math.min(PAUSE_MS, left);
  }

  @Override
  protected void begins() throws InterruptedException, ExecutionException, TimeoutException {
    read = ends();
  }
}
