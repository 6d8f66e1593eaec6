package kappa;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Log lines by window and template, which are handed out as rows of WINDOW (end, ms), SERIES, TEMPLATE, how many there were and the least message. */
final class LineCounts {
  static final int PARTS = 5; // of a row that is handed out
  private static final long ENOUGH = 16L << 20; // bytes of the lines that wait in memory
  private static final int OVERHEAD = 200; // bytes of an entry without its texts
  private static final int LONGEST_NUMBER = 20; // characters
  private static final int FEWEST_SLOTS = 1 << 10; // a power of two
  // Anybody can make names whose hashes are alike. When a name finds no slot so near to its own, all that wait are handed out: a row
  // for fewer lines, as of lines of which no two are alike.
  private static final int MOST_PROBES = 64;

  private final LogTemplate.Work templates;
  private Line[] slots = new Line[FEWEST_SLOTS]; // by the hashes of their names, in the first free one from its own on
  private int many = 0; // of them that are taken
  private byte[] name = new byte[512]; // of a line: window, host, service and level, a zero behind each, and the template
  private int at; // its end
  private long lastWindow = -1;
  private byte[] windowText; // of `lastWindow`
  private long bytes = 0;
  private Line[] full = null; // lines that are handed out, some of them null
  private int next = 0; // of `full`

  LineCounts(LogTemplate templates) {
    this.templates = templates.work();
  }

  /** A line. Hands out all where they are many. */
  void add(long window, String host, String service, String level, String message) {
    byte[] template = utf8(templates.template(message));
    byte[] text = utf8(message);
    byte[] named = utf8(host);
    byte[] serving = utf8(service);
    // no part but the last has a control character
    begin(window, named.length + serving.length + level.length() + template.length);
    put(named, 0, named.length);
    put(serving, 0, serving.length);
    put(level);
    System.arraycopy(template, 0, name, at, template.length);
    at += template.length;
    long hash = SumsBlock.hash(name, 0, at);
    Line known = find(hash);
    if (known == null) {
      add(new Line(hash, Arrays.copyOf(name, at), template.length, window, host, service, level, text));
    } else {
      count(known, text, 0, text.length);
    }
  }

  /** The same of a line of ASCII, without an object for any part of it. */
  void add(long window, PlainLine line, String level) {
    int size = templates.ofAscii(line.message, line.messageBegin, line.messageEnd);
    begin(window, line.size(PlainRecord.HOST_PART) + line.size(PlainRecord.SERVICE_PART) + level.length() + size);
    put(line.text, line.begins[PlainRecord.HOST_PART], line.ends[PlainRecord.HOST_PART]);
    put(line.text, line.begins[PlainRecord.SERVICE_PART], line.ends[PlainRecord.SERVICE_PART]);
    put(level);
    templates.copy(name, at);
    at += size;
    long hash = SumsBlock.hash(name, 0, at);
    Line known = find(hash);
    if (known == null) {
      byte[] text = Arrays.copyOfRange(line.message, line.messageBegin, line.messageEnd);
      add(new Line(hash, Arrays.copyOf(name, at), size, window, line.host(), line.service(), level, text));
    } else {
      count(known, line.message, line.messageBegin, line.messageEnd);
    }
  }

  /** Begin a name whose parts behind the window have `size` bytes. */
  private void begin(long window, int size) {
    if (name.length < LONGEST_NUMBER + PARTS + size) {
      name = new byte[2 * (LONGEST_NUMBER + PARTS + size)];
    }
    if (window != lastWindow) {
      lastWindow = window;
      windowText = PlainRecord.bytes(Long.toString(window));
    }
    at = 0;
    put(windowText, 0, windowText.length);
  }

  private void put(byte[] from, int start, int stop) {
    System.arraycopy(from, start, name, at, stop - start);
    at += stop - start;
    name[at++] = 0;
  }

  private void put(String ascii) {
    for (int i = 0; i < ascii.length(); i++) {
      name[at++] = (byte) ascii.charAt(i);
    }
    name[at++] = 0;
  }

  /** What is known of the line that is named; null where it is the first. */
  private Line find(long hash) {
    for (int probe = 0; probe < MOST_PROBES; probe++) {
      Line line = slots[(int) (hash + probe) & slots.length - 1];
      if (line == null || line.hash == hash && Arrays.equals(line.name, 0, line.name.length, name, 0, at)) {
        return line;
      }
    }
    return null;
  }

  /** Another line of the same name: the least message is kept, by its bytes. */
  private void count(Line known, byte[] text, int start, int stop) {
    known.count++;
    if (Arrays.compareUnsigned(text, start, stop, known.least, 0, known.least.length) < 0) {
      bytes += stop - start - known.least.length;
      known.least = Arrays.copyOfRange(text, start, stop);
      if (bytes >= ENOUGH) {
        handOut();
      }
    }
  }

  private void add(Line line) {
    if (!isPlaced(line)) {
      handOut();
      isPlaced(line);
    }
    many++;
    bytes += OVERHEAD + line.name.length + 2 * (line.host.length() + line.service.length()) + line.least.length;
    if (bytes >= ENOUGH) {
      handOut();
    } else if (many > slots.length / 2) {
      widen();
    }
  }

  /** Put a line into a slot; false where none is free near its own. */
  private boolean isPlaced(Line line) {
    for (int probe = 0; probe < MOST_PROBES; probe++) {
      int slot = (int) (line.hash + probe) & slots.length - 1;
      if (slots[slot] == null) {
        slots[slot] = line;
        return true;
      }
    }
    return false;
  }

  /** Twice as many slots. From a free one on, lines are placed in the order of their slots: so none comes further from its own than it was. */
  private void widen() {
    Line[] narrow = slots;
    slots = new Line[2 * narrow.length];
    int free = 0;
    while (narrow[free] != null) {
      free++;
    }
    for (int i = free + 1; i < free + narrow.length; i++) {
      Line line = narrow[i & narrow.length - 1];
      if (line != null && !isPlaced(line)) {
        throw new IllegalStateException("a line without a slot");
      }
    }
  }

  /** Begin to hand out all lines. */
  void handOut() {
    full = slots;
    next = 0;
    slots = new Line[Math.max(FEWEST_SLOTS, Integer.highestOneBit(Math.max(many, 1)) * 4)];
    many = 0;
    bytes = 0;
  }

  boolean hasRow() {
    while (full != null && full[next] == null) {
      step();
    }
    return full != null;
  }

  private void step() {
    next++;
    if (next == full.length) {
      full = null;
    }
  }

  /** The parts of a row, where there is one. */
  Object[] row() {
    Line line = full[next];
    step();
    String template = text(line.name, line.name.length - line.size, line.size);
    String least = text(line.least, 0, line.least.length);
    return new Object[] {Long.valueOf(line.window), line.series(), template, Long.valueOf(line.count), least};
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] utf8, int start, int size) {
    return new String(utf8, start, size, StandardCharsets.UTF_8);
  }

  /** Lines of one template, on one host, of one service, level and window. */
  private static final class Line {
    final long hash; // of `name`
    final byte[] name;
    final int size; // of the template, with which the name ends
    final long window;
    final String host;
    final String service;
    final String level;
    byte[] least;
    long count = 1;

    Line(long hash, byte[] name, int size, long window, String host, String service, String level, byte[] message) {
      this.hash = hash;
      this.name = name;
      this.size = size;
      this.window = window;
      this.host = host;
      this.service = service;
      this.level = level;
      least = message;
    }

    /** The name of the series, as pipelines/jobs/extract.py makes it. */
    String series() {
      StringBuilder series = new StringBuilder("template/");
      FlatRecord.quote(series, host);
      FlatRecord.quote(series.append('/'), service);
      String id = Long.toHexString(SumsBlock.hash(name, name.length - size, size));
      series.append('/').append(level).append('/');
      for (int i = id.length(); i < 16; i++) {
        series.append('0');
      }
      return series.append(id).toString();
    }
  }
}
