package kappa;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/** Log lines by window and template, which are handed out as rows of WINDOW (end, ms), SERIES, TEMPLATE, how many there were and the least message. */
final class LineCounts {
  static final int PARTS = 5; // of a row that is handed out
  private static final long ENOUGH = 16L << 20; // bytes of the lines that wait in memory
  private static final int OVERHEAD = 200; // bytes of an entry without its texts
  private static final int LONGEST_NUMBER = 20; // characters
  private static final int OF_ASCII = 1; // bytes of a character
  private static final int OF_ANY = 2;

  private final LogTemplate.Work templates;
  // Texts as keys, and no objects of ours: of texts with one hash, which anybody can make, a map of Java makes a tree.
  private Map counts = new HashMap(); // name -> Line
  private final StringBuilder name = new StringBuilder(256);
  private byte[] key = new byte[512]; // the name of a line that is ASCII
  private int at; // its end
  private long lastWindow = -1;
  private byte[] windowText; // of `lastWindow`
  private long bytes = 0;
  private Iterator full = null; // lines that are handed out

  LineCounts(LogTemplate templates) {
    this.templates = templates.work();
  }

  /** A line. Hands out all where they are many. */
  void add(long window, String host, String service, String level, String message) {
    String template = templates.template(message);
    name.setLength(0);
    // no part but the last has a control character
    name.append(window).append('\0').append(host).append('\0').append(service).append('\0').append(level).append('\0').append(template);
    String full = name.toString();
    Line known = (Line) counts.get(full);
    if (known == null) {
      begin(full, new Line(window, host, service, level, template.length(), message), OF_ANY);
    } else {
      known.count++;
      // whole characters of 16 bits: their order is that of their bytes in UTF-8
      if (message.compareTo(known.least) < 0) {
        replace(known, message, OF_ANY);
      }
    }
  }

  /** The same of a line of ASCII, without an object for any part of it. */
  void add(long window, PlainLine line, String level) {
    int size = templates.ofAscii(line.message, line.messageBegin, line.messageEnd);
    String name = nameOf(window, line, level, size);
    Line known = (Line) counts.get(name);
    if (known == null) {
      begin(name, new Line(window, line.host(), line.service(), level, size, line.messageText()), OF_ASCII);
    } else {
      known.count++;
      if (line.isBefore(known.least)) {
        replace(known, line.messageText(), OF_ASCII);
      }
    }
  }

  /** The name under which a line is counted, as above; `size` is that of its template. */
  private String nameOf(long window, PlainLine line, String level, int size) {
    int most = LONGEST_NUMBER + line.size(PlainRecord.HOST_PART) + line.size(PlainRecord.SERVICE_PART) + level.length() + PARTS + size;
    if (key.length < most) {
      key = new byte[2 * most];
    }
    if (window != lastWindow) {
      lastWindow = window;
      windowText = PlainRecord.bytes(Long.toString(window));
    }
    at = 0;
    put(windowText, 0, windowText.length);
    put(line.text, line.begins[PlainRecord.HOST_PART], line.ends[PlainRecord.HOST_PART]);
    put(line.text, line.begins[PlainRecord.SERVICE_PART], line.ends[PlainRecord.SERVICE_PART]);
    for (int i = 0; i < level.length(); i++) {
      key[at++] = (byte) level.charAt(i);
    }
    key[at++] = 0;
    templates.copy(key, at);
    return new String(key, 0, at + size, StandardCharsets.ISO_8859_1);
  }

  private void put(byte[] from, int start, int stop) {
    System.arraycopy(from, start, key, at, stop - start);
    at += stop - start;
    key[at++] = 0;
  }

  private void begin(String name, Line line, int character) {
    counts.put(name, line);
    bytes += OVERHEAD + (long) character * (name.length() + line.host.length() + line.service.length() + line.least.length());
    if (bytes >= ENOUGH) {
      handOut();
    }
  }

  private void replace(Line known, String message, int character) {
    bytes += (long) character * (message.length() - known.least.length());
    known.least = message;
  }

  /** Begin to hand out all lines. */
  void handOut() {
    full = counts.entrySet().iterator();
    counts = new HashMap();
    bytes = 0;
  }

  boolean hasRow() {
    return full != null && full.hasNext();
  }

  /** The parts of a row, where there is one. */
  Object[] row() {
    Map.Entry entry = (Map.Entry) full.next();
    Line line = (Line) entry.getValue();
    String name = (String) entry.getKey();
    String template = name.substring(name.length() - line.size);
    return new Object[] {Long.valueOf(line.window), line.series(template), template, Long.valueOf(line.count), line.least};
  }

  /** Lines of one template, on one host, of one service, level and window. */
  private static final class Line {
    final long window;
    final String host;
    final String service;
    final String level;
    final int size; // of the template, with which its name ends
    String least;
    long count = 1;

    Line(long window, String host, String service, String level, int size, String message) {
      this.window = window;
      this.host = host;
      this.service = service;
      this.level = level;
      this.size = size;
      least = message;
    }

    /** The name of the series, as pipelines/jobs/extract.py makes it. */
    String series(String template) {
      StringBuilder name = new StringBuilder("template/");
      FlatRecord.quote(name, host);
      FlatRecord.quote(name.append('/'), service);
      byte[] text = template.getBytes(StandardCharsets.UTF_8);
      String id = Long.toHexString(SumsBlock.hash(text, 0, text.length));
      name.append('/').append(level).append('/');
      for (int i = id.length(); i < 16; i++) {
        name.append('0');
      }
      return name.append(id).toString();
    }
  }
}
