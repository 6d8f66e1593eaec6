package kappa;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The bounds of all series, one table for each topic in this JVM, and which alarms may be raised. `BoundsReader` fills it, tasks of the
 * lane ask it about each record, and who settles alarms says up to which window the exact lane has judged.
 */
public final class AlarmBounds {
  private static final int MOST = 4000000; // series
  private static final Map TABLES = new HashMap(); // topic -> AlarmBounds

  private final Map bounds = new ConcurrentHashMap(); // series -> AlarmBound
  private final RaisedAlarms raised = new RaisedAlarms();
  private final AtomicLong refused = new AtomicLong();
  private final AtomicLong seen = new AtomicLong();
  private volatile long judged = Long.MIN_VALUE; // the last window of which the exact lane has judged all shards, ms

  private AlarmBounds() {}

  /** The table of a topic. */
  public static synchronized AlarmBounds of(String topic) {
    AlarmBounds found = (AlarmBounds) TABLES.get(topic);
    if (found == null) {
      found = new AlarmBounds();
      TABLES.put(topic, found);
    }
    return found;
  }

  /** An empty table of a topic, which takes the place of the one that there is. */
  static synchronized AlarmBounds renewed(String topic) {
    TABLES.remove(topic);
    return of(topic);
  }

  /** Take in a record of the topic. What cannot be read is counted, and changes nothing. */
  public void take(byte[] record) {
    try {
      AlarmBound found = AlarmBound.of(record);
      AlarmBound before = (AlarmBound) bounds.get(found.series);
      if (found.isNone()) {
        bounds.remove(found.series);
      } else if (before != null || bounds.size() < MOST) {
        if (before != null) {
          found.follow(before);
        }
        bounds.put(found.series, found);
      } else {
        refused.incrementAndGet();
      }
    } catch (IOException unreadable) {
      refused.incrementAndGet();
    } catch (NumberFormatException unreadable) {
      refused.incrementAndGet();
    }
  }

  /** The bound of a series; null where it has none. */
  AlarmBound find(String series) {
    return (AlarmBound) bounds.get(series);
  }

  /**
   * Whether an alarm may be raised for a record of this window: not where the exact lane has judged it already, nor where that is
   * more than `mostBehind` ms behind, so that its bounds are of another time and nobody would settle the alarm.
   */
  boolean mayRaise(String series, String host, long windowEnd, long mostBehind) {
    long until = judged;
    return windowEnd > until && until != Long.MIN_VALUE && windowEnd - until <= mostBehind
        && raised.raises(series, host, windowEnd);
  }

  /** The exact lane has judged all shards up to this window: alarms of later ones may be raised. */
  public void judged(long until) {
    judged = until;
  }

  /** What was held back in the windows up to the last one that was judged, as JSON: [end, series, their hosts] of each; only once. */
  public String held() {
    return raised.held(judged);
  }

  /** A series has an alarm that is not settled, or whose incident is open: none is raised for it. */
  public void quiet(String series) {
    raised.quiet(series);
  }

  /** A series may raise alarms again. */
  public void speak(String series) {
    raised.speak(series);
  }

  /** Count points and lines that were looked at. */
  void saw(long records) {
    seen.addAndGet(records);
  }

  /** How many points and lines were looked at. */
  public long seen() {
    return seen.get();
  }

  /** How many series have a bound. */
  public int size() {
    return bounds.size();
  }

  /** How many records were no bounds, or more than there may be. */
  public long refused() {
    return refused.get();
  }
}
