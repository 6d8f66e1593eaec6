package kappa.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.spark.sql.api.java.UDF1;

/** How fast a function is with log lines, of one core: for lines.py. */
public class Lines {
  private final UDF1 function;
  private final String[] lines;

  public Lines(UDF1 function, String[] lines) {
    this.function = function;
    this.lines = lines;
  }

  /** Lines a second of the thread's processor time, over at least so many seconds of it. */
  public double perSecond(double seconds) throws Exception {
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    long begin = clock.getCurrentThreadCpuTime();
    long taken = 0;
    long many = 0;
    while (taken < seconds * 1e9) {
      for (int i = 0; i < lines.length; i++) {
        function.call(lines[i]);
      }
      many += lines.length;
      taken = clock.getCurrentThreadCpuTime() - begin;
    }
    return many * 1e9 / taken;
  }
}
