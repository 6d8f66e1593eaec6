package kappa;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * Whether a record of the topic "statistics" is one that "extract" writes, byte for byte: its members in their order, each
 * within its bounds. What is not has a reason, and is never believed.
 *
 * <p>Reads each byte once or twice and makes no object of a record that is good, apart from its numbers.
 */
final class StatisticsRecord {
  private static final byte[] ROW = bytes("{\"record\":\"statistics\",\"series\":\""), WATERMARK = bytes("{\"record\":\"watermark\",");
  private static final byte[] WINDOW = bytes("\"window_end\":"), N = bytes(",\"n\":"), MEAN = bytes(",\"mean\":"), M2 = bytes(",\"m2\":"),
      MIN = bytes(",\"min\":"), MAX = bytes(",\"max\":"), LAST = bytes(",\"last\":"), SHARD = bytes(",\"shard\":"),
      PEERS = bytes(",\"peers\":"), PEERS_LOWER = bytes(",\"peers_lower\":"), PEERS_MEDIAN = bytes(",\"peers_median\":"),
      PEERS_UPPER = bytes(",\"peers_upper\":"),
      TEMPLATE = bytes(",\"template\":\""), SAMPLE = bytes(",\"sample\":\""), UNTIL = bytes("\"watermark\":");
  private static final byte[] GAUGE = bytes("gauge"), COUNTER = bytes("counter"), LOGS = bytes("logs"), LINES = bytes("template"),
      LABEL = bytes("label"), CHANGE = bytes("change"), RULE = bytes("rule"), OVERFLOW = bytes("overflow");
  // KINDS, LATE and AHEAD of models/detection/limits.py
  private static final Set LIMITS = new HashSet(Arrays.asList(new String[] {"metrics", "templates", "services", "new", "hosts",
      "all_series", "changes", "labels", "rules", "late", "ahead"}));
  private static final int MOST_SERIES = 24000; // bytes: three names and 16 labels of four bytes a character
  private static final int MOST_TEXT = 65536; // bytes of JSON of a template or a line: 8,192 characters of six at most
  private static final int MOST_RULE_NAME = 400; // bytes of JSON of a rule's name: 100 characters of four at most
  private static final long MOST_N = 10000000000L;
  private static final double MOST_M2 = 1e45; // of so many values of 1e15
  private static final double ROUNDED = 1.000001; // a mean of values at their bound
  private static final byte[] LAST_OFFSET = bytes("09223372036854775807"); // of a rule
  private static final int MOST_DIGITS = 30; // of a number: a double has 17, and an exponent
  private static final int EXACT_DIGITS = 15; // fewer than 2^53
  private static final double[] TENS = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  private static final long SEED = 42; // of Spark's xxhash64
  private static final String FORM = "not a record that extract writes";

  private final int partitions, shards;
  private final long window, ahead;
  private final int most;

  /** Of the record that was checked last: its shard, whether it is a row of a metric, and the window's end or the watermark. */
  int shard;
  boolean isMetric;
  long end;

  /** Of a row: its series, the first bytes of `name`, and `n`; of a metric also the numbers of MetricColumns, and no peers as NaN. */
  byte[] name = new byte[512];
  int nameLength;
  long n;
  final double[] numbers = new double[MetricColumns.NUMBERS];

  private byte[] text;
  private int at;
  private int seriesBegin, seriesEnd; // in `name`

  /** Of a topic with so many partitions; `window` and `ahead` (of the append time) in ms, `most` bytes of a record. */
  StatisticsRecord(int partitions, int shards, long window, long ahead, int most) {
    this.partitions = partitions;
    this.shards = shards;
    this.window = window;
    this.ahead = ahead;
    this.most = most;
  }

  /** Why a record of a partition, appended at a time (ms), is not ours; null for one that is. */
  String problem(byte[] record, int partition, long append) {
    if (record == null || record.length == 0) {
      return FORM + ": it is empty";
    }
    if (record.length > most) {
      return FORM + ": it has " + record.length + " bytes, wanted at most " + most;
    }
    int bits = 0;
    for (int i = 0; i < record.length; i++) {
      byte b = record[i];
      bits |= b;
      if (b >= 0 && b < 0x20) {
        return FORM + ": a control character at byte " + i;
      }
    }
    if (bits < 0 && !isUtf8(record)) {
      return FORM + ": not UTF-8";
    }
    text = record;
    at = 0;
    isMetric = false;
    String found = starts(ROW) ? row() : starts(WATERMARK) ? watermark() : FORM + ": it begins otherwise";
    if (found != null) {
      return found;
    }
    if (end <= 0 || end % window != 0) {
      return "window " + end + " is not on the grid of " + window + " ms";
    }
    if (end > append + ahead) {
      return "window " + end + " ends more than " + ahead + " ms after the append time";
    }
    if (shard >= shards || shard % partitions != partition) {
      return "shard " + shard + " of " + shards + " does not live in partition " + partition + " of " + partitions;
    }
    return null;
  }

  private String watermark() {
    end = starts(UNTIL) ? integer() : -1;
    long in = end >= 0 && starts(SHARD) ? integer() : -1;
    if (in < 0 || in > Integer.MAX_VALUE || !ends()) {
      return FORM + ": a watermark message with something else at byte " + at;
    }
    shard = (int) in;
    return null;
  }

  private String row() {
    if (!series()) {
      return FORM + ": not the name of a series";
    }
    end = at < text.length && text[at++] == ',' && starts(WINDOW) ? integer() : -1;
    n = end >= 0 && starts(N) ? integer() : -1;
    if (n < 1 || n > MOST_N) {
      return FORM + ": window_end and n are not the numbers that they should be, before byte " + at;
    }
    boolean counter = isKind(COUNTER), metric = counter || isKind(GAUGE), lines = isKind(LINES);
    boolean over = isKind(OVERFLOW);
    isMetric = metric;
    String problem = metric ? numbers(counter) : over && !isNumberOfSeries() ? FORM + ": no last" : null;
    if (problem != null) {
      return problem;
    }
    long in = starts(SHARD) ? integer() : -1;
    if (in < 0 || in > Integer.MAX_VALUE) {
      return FORM + ": no shard at byte " + at;
    }
    shard = (int) in;
    boolean sound = template(lines) && (over || isOfPeople() ? sample() : sampleLine(lines));
    if (!sound || !ends()) {
      return FORM + ": something else at byte " + at;
    }
    if (isKind(RULE)) {
      return isNamed(in) ? null : "a rule that is not for shard " + in;
    }
    int host = over && seriesEnd == seriesBegin ? shard : host(); // what is left out of the fleet is of every shard
    return in == host ? null : "the host is of shard " + host + ", not " + in;
  }

  /** The template of log lines, which may be missing; the name of a rule, which may not. */
  private boolean template(boolean lines) {
    if (!isKind(RULE)) {
      return !lines || !starts(TEMPLATE) || string(MOST_TEXT);
    }
    int from = at + TEMPLATE.length;
    return starts(TEMPLATE) && string(MOST_RULE_NAME) && at > from + 1;
  }

  /** The sample of log lines, which may be missing. */
  private boolean sampleLine(boolean lines) {
    return !lines || !starts(SAMPLE) || string(MOST_TEXT);
  }

  /**
   * The sample of what people write, and of what is left out: JSON that "detect" reads. Of a rule it says itself why it is none;
   * there is none of a record that "extract" has refused.
   */
  private boolean sample() {
    if (!starts(SAMPLE)) {
      return isKind(RULE);
    }
    int from = at - 1;
    if (!string(most)) {
      return false;
    }
    return isKind(RULE) ? true : isKind(LABEL) ? SampleText.isLabel(text, from, at)
        : isKind(CHANGE) ? SampleText.isAnnounced(text, from, at) : SampleText.areNames(text, from, at);
  }

  /** About how many series were sent, or by how many seconds records were late. */
  private boolean isNumberOfSeries() {
    double last = starts(LAST) ? number() : Double.NaN;
    return last >= 0 && last <= FlatPoint.MAX_GAUGE;
  }

  /** The five numbers of a metric. */
  private String numbers(boolean counter) {
    double mean = numbers[0] = starts(MEAN) ? number() : Double.NaN, m2 = numbers[1] = starts(M2) ? number() : Double.NaN;
    double min = numbers[2] = starts(MIN) ? number() : Double.NaN, max = numbers[3] = starts(MAX) ? number() : Double.NaN;
    double last = numbers[4] = starts(LAST) ? number() : Double.NaN;
    Arrays.fill(numbers, 5, numbers.length, Double.NaN);
    double bound = counter ? FlatPoint.MAX_COUNTER : FlatPoint.MAX_GAUGE;
    // comparisons with what is not a number are false
    boolean good = Math.abs(mean) <= bound * ROUNDED && m2 >= 0 && m2 <= MOST_M2 && min >= -bound && max <= bound && min <= last
        && last <= max;
    if (!good) {
      return FORM + ": mean, m2, min, max and last are not those of numbers, before byte " + at;
    }
    return counter || !starts(PEERS) ? null : peers();
  }

  /** How many other hosts a gauge's role has, and three of their quantiles. */
  private String peers() {
    long others = integer();
    double lower = starts(PEERS_LOWER) ? number() : Double.NaN, median = starts(PEERS_MEDIAN) ? number() : Double.NaN;
    double upper = starts(PEERS_UPPER) ? number() : Double.NaN, bound = FlatPoint.MAX_GAUGE * ROUNDED;
    boolean good = others >= 1 && others <= MOST_N && lower >= -bound && lower <= median && median <= upper && upper <= bound;
    numbers[5] = others;
    numbers[6] = lower;
    numbers[7] = median;
    numbers[8] = upper;
    return good ? null : FORM + ": peers are not those of numbers, before byte " + at;
  }

  /** A name of the form of models/core/series.py, or of what people write, into `name`, and the quote behind it. */
  private boolean series() {
    int length = 0, slashes = 0;
    if (name.length < Math.min(text.length, MOST_SERIES + 2)) {
      name = new byte[Math.min(text.length, MOST_SERIES) + 2];
    }
    seriesBegin = -1;
    for (; at < text.length && text[at] != '"'; at++) {
      byte b = text[at];
      if (length > MOST_SERIES) {
        return false;
      }
      if (b == '\\') {
        at++;
        if (at >= text.length || (text[at] != '"' && text[at] != '\\')) {
          return false; // all other escapes are of control characters, which no name has
        }
        b = text[at];
      } else if (b == 0x7f || (b == (byte) 0xc2 && at + 1 < text.length && text[at + 1] <= (byte) 0x9f)) {
        return false; // a control character: c2 80 to c2 9f
      } else if (b == '%' && !(follows("25") || follows("2F"))) {
        return false;
      } else if (b == '/') {
        slashes++;
        if (slashes == 1) {
          seriesBegin = length + 1;
        } else if (slashes == 2) {
          seriesEnd = length;
        }
      }
      name[length++] = b;
    }
    nameLength = length;
    if (at >= text.length || seriesBegin < 0) {
      return false;
    }
    at++;
    kind = seriesBegin - 1;
    boolean over = isKind(OVERFLOW);
    int wanted = isKind(GAUGE) || isKind(COUNTER) || isKind(LOGS) ? 3 : isKind(LINES) ? 4 : over || isOfPeople() ? 2 : -1;
    boolean sound = !(isKind(RULE) || isKind(OVERFLOW)) || (over ? isLimit(length) : isOffset(seriesEnd + 1, length));
    return slashes == wanted && (over || seriesEnd > seriesBegin) && sound;
  }

  private int kind; // bytes of the series' kind

  private boolean isKind(byte[] word) {
    if (kind != word.length) {
      return false;
    }
    for (int i = 0; i < kind; i++) {
      if (name[i] != word[i]) {
        return false;
      }
    }
    return true;
  }

  /** Whether the series is of what people write, and has JSON as its sample. */
  private boolean isOfPeople() {
    return isKind(LABEL) || isKind(CHANGE) || isKind(RULE);
  }

  /** Whether the series is of this shard by its name, as a rule is. */
  private boolean isNamed(long shard) {
    byte[] digits = bytes(Long.toString(shard));
    boolean same = digits.length == seriesEnd - seriesBegin;
    for (int i = 0; same && i < digits.length; i++) {
      same = name[seriesBegin + i] == digits[i];
    }
    return same;
  }

  /** Whether a part of the name is an offset with its zeros, of 63 bits. */
  private boolean isOffset(int from, int to) {
    boolean found = to - from == LAST_OFFSET.length;
    int beyond = 0; // above 0: the first digit that differs is larger than that of the last offset
    for (int i = from; found && i < to; i++) {
      found = name[i] >= '0' && name[i] <= '9';
      beyond = beyond == 0 ? name[i] - LAST_OFFSET[i - from] : beyond;
    }
    return found && beyond <= 0;
  }

  /** Whether the rest of the name is a limit. */
  private boolean isLimit(int to) {
    return seriesEnd < to && LIMITS.contains(new String(name, seriesEnd + 1, to - seriesEnd - 1, StandardCharsets.UTF_8));
  }

  private boolean follows(String two) {
    return at + 2 < text.length && text[at + 1] == two.charAt(0) && text[at + 2] == two.charAt(1);
  }

  /** As extract.shard_of. */
  private int host() {
    long hash = XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET + seriesBegin, seriesEnd - seriesBegin, SEED);
    long found = hash % shards;
    return (int) (found < 0 ? found + shards : found);
  }

  private boolean starts(byte[] word) {
    if (at + word.length > text.length) {
      return false;
    }
    for (int i = 0; i < word.length; i++) {
      if (text[at + i] != word[i]) {
        return false;
      }
    }
    at += word.length;
    return true;
  }

  private boolean ends() {
    return at == text.length - 1 && text[at] == '}';
  }

  /** Digits, 18 at most and without zeros before others; -1 for anything else. */
  private long integer() {
    int from = at;
    long found = 0;
    while (at < text.length && at < from + 19 && text[at] >= '0' && text[at] <= '9') {
      found = 10 * found + text[at++] - '0';
    }
    boolean padded = at > from + 1 && text[from] == '0';
    return at == from || at > from + 18 || padded ? -1 : found;
  }

  /** A number as Java writes a double, or Not a Number. */
  private double number() {
    int from = at;
    boolean negative = at < text.length && text[at] == '-';
    if (negative) {
      at++;
    }
    int whole = digits();
    boolean padded = whole > 1 && text[at - whole] == '0';
    if (whole == 0 || padded || at >= text.length || text[at++] != '.') {
      return Double.NaN;
    }
    int places = digits();
    if (places == 0) {
      return Double.NaN;
    }
    if (whole + places <= EXACT_DIGITS && (at >= text.length || text[at] != 'E')) {
      long read = 0;
      for (int i = at - places - 1 - whole; i < at; i++) {
        read = text[i] == '.' ? read : 10 * read + text[i] - '0';
      }
      double found = read / TENS[places]; // both are exact, so the quotient is the nearest double
      return negative ? -found : found;
    }
    if (at < text.length && text[at] == 'E') {
      at++;
      if (at < text.length && text[at] == '-') {
        at++;
      }
      if (digits() == 0) {
        return Double.NaN;
      }
    }
    if (at - from > MOST_DIGITS) {
      return Double.NaN;
    }
    return Double.parseDouble(new String(text, from, at - from, StandardCharsets.US_ASCII));
  }

  private int digits() {
    int from = at;
    while (at < text.length && text[at] >= '0' && text[at] <= '9') {
      at++;
    }
    return at - from;
  }

  /** The rest of a string of JSON, of so many bytes at most, and its closing quote. */
  private boolean string(int bytes) {
    int from = at;
    boolean high = false; // a high surrogate waits for its low one
    while (at < text.length && at - from <= bytes) {
      byte b = text[at++];
      if (b == '"') {
        return !high;
      }
      if (b != '\\') {
        if (high) {
          return false;
        }
        continue;
      }
      if (at >= text.length) {
        return false;
      }
      byte what = text[at++];
      if (what != 'u') {
        if (high || "\"\\/bfnrt".indexOf(what) < 0) {
          return false;
        }
        continue;
      }
      int code = 0;
      for (int i = 0; i < 4; i++, at++) {
        int digit = at < text.length ? Character.digit(text[at] & 0xff, 16) : -1;
        if (digit < 0 || text[at] < 0) {
          return false;
        }
        code = 16 * code + digit;
      }
      boolean low = code >= 0xdc00 && code <= 0xdfff;
      if (low != high) {
        return false;
      }
      high = code >= 0xd800 && code <= 0xdbff;
    }
    return false;
  }

  private static boolean isUtf8(byte[] record) {
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(record));
      return true;
    } catch (CharacterCodingException notText) {
      return false;
    }
  }

  private static byte[] bytes(String word) {
    return word.getBytes(StandardCharsets.US_ASCII);
  }
}
