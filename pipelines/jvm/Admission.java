package kappa;

import java.io.Serializable;

/** Which events pipelines/jobs/extract.py admits, by their own time and that of their append, and the windows they belong to. */
final class Admission implements Serializable {
  private final long windowMillis;
  private final long latenessMillis;
  private final long skewMillis;

  Admission(long windowMillis, long latenessMillis, long skewMillis) {
    this.windowMillis = windowMillis;
    this.latenessMillis = latenessMillis;
    this.skewMillis = skewMillis;
  }

  /** Whether an event is neither late nor ahead. Both times are in microseconds. */
  boolean admits(long micros, long appended) {
    long behind = Math.floorDiv(appended, 1000L) - Math.floorDiv(micros, 1000L);
    return behind <= latenessMillis && -behind <= skewMillis;
  }

  /** The end of an event's window, ms. */
  long window(long micros) {
    return window(micros, windowMillis);
  }

  /** The same, of windows of a length. */
  static long window(long micros, long windowMillis) {
    return (Math.floorDiv(Math.floorDiv(micros, 1000L), windowMillis) + 1) * windowMillis;
  }
}
