package kappa;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;

/**
 * What a single record of a series is compared with: values outside of the bounds are rarer than `chance`; of log lines, what is
 * known of a service. Of a counter it remembers the last total, as its bounds are of the rate per second.
 */
final class AlarmBound {
  final String series;
  final long windowEnd; // the last window that it is made of, epoch ms
  final double lower, upper, typical, chance; // NaN: there is none
  final KnownLines known; // null: not of log lines

  private double total = Double.NaN;
  private long totalAt = Long.MIN_VALUE; // event time, ms

  private AlarmBound(String series, long windowEnd, double lower, double upper, double typical, double chance,
      KnownLines known) {
    this.series = series;
    this.windowEnd = windowEnd;
    this.lower = lower;
    this.upper = upper;
    this.typical = typical;
    this.chance = chance;
    this.known = known;
  }

  /** Whether there is nothing to compare with: the series has no bound any more. */
  boolean isNone() {
    return known == null && lower != lower && upper != upper;
  }

  /** Whether a value is beyond a bound. */
  boolean isCrossedBy(double value) {
    return value < lower || value > upper;
  }

  /** The rate per second since the last total; NaN for the first one, after a reset, after `mostMs`, and out of order. */
  synchronized double rate(double given, long at, long mostMs) {
    double before = total;
    long passed = totalAt == Long.MIN_VALUE ? 0 : at - totalAt;
    if (totalAt != Long.MIN_VALUE && passed <= 0) {
      return Double.NaN;
    }
    total = given;
    totalAt = at;
    return passed == 0 || passed > mostMs || given < before ? Double.NaN : 1000.0 * (given - before) / passed;
  }

  /** Go on from the last total of the bound that this one replaces. */
  synchronized void follow(AlarmBound before) {
    synchronized (before) {
      total = before.total;
      totalAt = before.totalAt;
    }
  }

  /** The bound that a record of the topic says. Raises IOException for what is none. */
  static AlarmBound of(byte[] record) throws IOException {
    JsonParser parser = FlatRecord.open(record, RecordText.MOST_BYTES);
    if (parser == null) {
      throw new IOException("not a JSON object");
    }
    try {
      return read(parser);
    } finally {
      parser.close();
    }
  }

  private static AlarmBound read(JsonParser parser) throws IOException {
    String record = null, series = null;
    long windowEnd = -1;
    double lower = Double.NaN, upper = Double.NaN, typical = Double.NaN, chance = Double.NaN;
    KnownLines lines = new KnownLines();
    boolean isOfLines = false;
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      JsonToken token = parser.nextToken();
      boolean none = token == JsonToken.VALUE_NULL;
      if (name.equals("record")) {
        record = parser.getText();
      } else if (name.equals("series")) {
        series = parser.getText();
      } else if (name.equals("window_end")) {
        windowEnd = parser.getLongValue();
      } else if (name.equals("lower")) {
        lower = none ? Double.NaN : parser.getDoubleValue();
      } else if (name.equals("upper")) {
        upper = none ? Double.NaN : parser.getDoubleValue();
      } else if (name.equals("typical")) {
        typical = none ? Double.NaN : parser.getDoubleValue();
      } else if (name.equals("chance")) {
        chance = none ? Double.NaN : parser.getDoubleValue();
      } else if (name.equals("known")) {
        isOfLines = !none;
        lines.takeIds(parser, token);
      } else if (name.equals("levels")) {
        lines.takeLevels(parser, token);
      } else if (name.equals("patterns")) {
        lines.takePatterns(parser, token);
      } else {
        parser.skipChildren();
      }
    }
    if (!"bound".equals(record) || series == null || series.length() == 0 || series.length() > FlatPoint.MAX_SERIES
        || windowEnd < 0) {
      throw new IOException("no bound of a series");
    }
    return new AlarmBound(series, windowEnd, lower, upper, typical, chance, isOfLines ? lines : null);
  }
}
