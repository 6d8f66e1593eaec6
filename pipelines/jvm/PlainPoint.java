package kappa;

/**
 * The bytes of a flat canonical record of telemetry in its most usual form -> event time, name of the series and value,
 * without an object for any of them. False for whatever else, good or not: `FlatPoint` gives that to a parser of JSON.
 *
 * <p>Usual are, besides what `PlainRecord` says: members that the form knows, and labels in the order of their keys.
 */
final class PlainPoint extends PlainRecord {
  private static final byte[] METRIC = bytes("metric.name"), VALUE = bytes("metric.value"), TYPE = bytes("metric.type"),
      LABELS = bytes("labels");
  private static final byte[] COUNTER = bytes("counter"), COUNTERS = bytes("counter/"), GAUGES = bytes("gauge/");
  private static final int METRIC_PART = 2, PARTS = 3;
  private static final int EXACT_DIGITS = 15; // as many can always be a whole double
  private static final int MOST_DIGITS = 25;
  private static final double[] TENS = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

  /** Of the record that was read last: its value, and whether that is a counter's. */
  double value;
  boolean counter;
  /** The name of its series, `length` bytes of ASCII. */
  byte[] name = new byte[512];
  int length;

  private int labels; // bytes at the start of `sorted`
  private byte[] sorted = new byte[128];

  PlainPoint() {
    super(PARTS);
  }

  /** Whether a record is of the usual form; then the fields hold what it says. */
  boolean read(byte[] record) {
    if (!opens(record)) {
      return false;
    }
    counter = false;
    labels = -1;
    boolean valued = false, typed = false;
    do {
      if (!string() || !take(':')) {
        return false;
      }
      int from = begin, to = end;
      space();
      if (is(TIME, from, to)) {
        if (!time()) {
          return false;
        }
      } else if (is(VALUE, from, to)) {
        if (valued || !number()) {
          return false;
        }
        valued = true;
      } else if (is(HOST, from, to)) {
        if (!part(HOST_PART)) {
          return false;
        }
      } else if (is(METRIC, from, to)) {
        if (!part(METRIC_PART)) {
          return false;
        }
      } else if (is(SERVICE, from, to)) {
        if (!part(SERVICE_PART)) {
          return false;
        }
      } else if (is(TYPE, from, to)) {
        if (typed || !string()) {
          return false;
        }
        typed = true;
        counter = is(COUNTER, begin, end);
      } else if (!is(LABELS, from, to) || labels >= 0 || !labels()) {
        return false;
      }
    } while (take(','));
    if (!closes() || micros < 0 || !valued || !isName(HOST_PART) || !isName(METRIC_PART)
        || size(SERVICE_PART) > FlatRecord.MAX_NAME
        || !(Math.abs(value) <= (counter ? FlatPoint.MAX_COUNTER : FlatPoint.MAX_GAUGE))) {
      return false;
    }
    named();
    return length <= FlatPoint.MAX_SERIES;
  }

  /** The series' name, as models.core.series.quote writes its parts. */
  private void named() {
    int most = COUNTERS.length + PARTS + 3 * (text.length + Math.max(labels, 0));
    if (name.length < most) {
      name = new byte[2 * most];
    }
    byte[] kind = counter ? COUNTERS : GAUGES;
    System.arraycopy(kind, 0, name, 0, kind.length);
    length = kind.length;
    for (int part = 0; part < PARTS; part++) {
      if (part > 0) {
        name[length++] = '/';
      }
      quote(text, begins[part], ends[part]);
    }
    quote(sorted, 0, labels);
  }

  private void quote(byte[] from, int start, int stop) {
    for (int i = start; i < stop; i++) {
      byte c = from[i];
      if (c == '/' || c == '%') {
        name[length++] = '%';
        name[length++] = '2';
        name[length++] = (byte) (c == '/' ? 'F' : '5');
      } else {
        name[length++] = c;
      }
    }
  }

  /** Labels in ascending order of their keys, "{k=v,...}" in `sorted`; nothing for none. */
  private boolean labels() {
    if (!take('{')) {
      return false;
    }
    if (sorted.length < 2 * text.length) {
      sorted = new byte[2 * text.length];
    }
    labels = 0;
    if (take('}')) {
      return true;
    }
    int key = -1, keyEnd = -1, count = 0;
    do {
      if (!string() || end - begin > FlatPoint.MAX_LABEL || ++count > FlatPoint.MAX_LABELS
          || (key >= 0 && !ascends(key, keyEnd, begin, end))) {
        return false;
      }
      key = begin;
      keyEnd = end;
      sorted[labels++] = (byte) (count == 1 ? '{' : ',');
      label(key, keyEnd);
      sorted[labels++] = '=';
      if (!take(':')) {
        return false;
      }
      space();
      if (!string() || end - begin > FlatPoint.MAX_LABEL) {
        return false;
      }
      label(begin, end);
    } while (take(','));
    sorted[labels++] = '}';
    return take('}');
  }

  private void label(int from, int to) {
    System.arraycopy(text, from, sorted, labels, to - from);
    labels += to - from;
  }

  private boolean ascends(int one, int oneEnd, int other, int otherEnd) {
    int shared = Math.min(oneEnd - one, otherEnd - other);
    for (int i = 0; i < shared; i++) {
      if (text[one + i] != text[other + i]) {
        return text[one + i] < text[other + i];
      }
    }
    return oneEnd - one < otherEnd - other;
  }

  /** A number as JSON writes it, into `value`. */
  private boolean number() {
    int from = at;
    boolean negative = at < text.length && text[at] == '-';
    if (negative) {
      at++;
    }
    long whole = 0;
    int start = at, point = -1, digits = 0;
    for (; at < text.length; at++) {
      int c = text[at];
      if (c >= '0' && c <= '9') {
        if (digits++ < EXACT_DIGITS) {
          whole = 10 * whole + (c - '0');
        }
      } else if (c == '.' && point < 0 && digits > 0) {
        point = at;
      } else {
        break;
      }
    }
    if (digits == 0 || digits > MOST_DIGITS || point == at - 1) {
      return false;
    }
    boolean padded = text[start] == '0' && (point < 0 ? digits > 1 : point > start + 1);
    if (padded) {
      return false;
    }
    // Both are whole doubles, so their quotient is the double that is nearest to the number.
    double found = digits <= EXACT_DIGITS ? whole / TENS[point < 0 ? 0 : at - point - 1] : parsed(start);
    value = negative ? -found : found;
    return true;
  }

  private double parsed(int start) {
    return Double.parseDouble(new String(text, 0, start, at - start));
  }
}
