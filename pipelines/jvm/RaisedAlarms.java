package kappa;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Which series have an alarm, and how many a host and the fleet have in each window: what is beyond the limits is held back and counted. */
final class RaisedAlarms {
  static final int MOST_OF_HOST = 5; // alarms in a window
  static final int MOST_OF_FLEET = 200;
  private static final int MOST_HELD = 100000; // series of a window that are counted
  private static final int MOST_WINDOWS = 10000;

  private final Set quiet = new HashSet(); // series
  private final TreeMap windows = new TreeMap(); // end -> Window

  /** Whether an alarm is raised: the first of its series since that was last free to speak, and within the limits. */
  synchronized boolean raises(String series, String host, long windowEnd) {
    if (quiet.contains(series)) {
      return false;
    }
    Long end = Long.valueOf(windowEnd);
    Window window = (Window) windows.get(end);
    if (window == null) {
      window = new Window();
      windows.put(end, window);
      if (windows.size() > MOST_WINDOWS) {
        windows.remove(windows.firstKey());
      }
    }
    boolean raises = window.raises(series, host);
    if (raises) {
      quiet.add(series);
    }
    return raises;
  }

  synchronized void quiet(String series) {
    quiet.add(series);
  }

  synchronized void speak(String series) {
    quiet.remove(series);
  }

  /** Forget the windows up to one; of those in which series were held back, as JSON: [end, series, their hosts]. */
  synchronized String held(long until) {
    StringBuilder out = new StringBuilder();
    while (!windows.isEmpty() && ((Long) windows.firstKey()).longValue() <= until) {
      Long end = (Long) windows.firstKey();
      Window window = (Window) windows.remove(end);
      if (!window.held.isEmpty()) {
        out.append(out.length() == 0 ? "[" : ",[").append(end).append(',').append(window.held.size()).append(',')
            .append(window.hosts.size()).append(']');
      }
    }
    return "[" + out + "]";
  }

  /** Alarms of a window. */
  private static final class Window {
    final Set held = new HashSet(); // series
    final Set hosts = new HashSet(); // of them
    private final Map ofHost = new HashMap(); // host -> int[] {raised}
    private int raised = 0;

    boolean raises(String series, String host) {
      int[] own = (int[]) ofHost.get(host);
      if (raised < MOST_OF_FLEET && (own == null || own[0] < MOST_OF_HOST)) {
        if (own == null) {
          own = new int[1];
          ofHost.put(host, own);
        }
        own[0]++;
        raised++;
        return true;
      }
      if (held.size() < MOST_HELD) {
        held.add(series);
        hosts.add(host);
      }
      return false;
    }
  }
}
