package kappa;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/** Log lines by window and template, which are handed out as rows of WINDOW (end, ms), SERIES, TEMPLATE, how many there were and the least message. */
final class LineCounts {
  static final int PARTS = 5; // of a row that is handed out
  private static final long ENOUGH = 8L << 20; // bytes of the texts that wait in memory
  private static final int OVERHEAD = 200; // bytes of an entry without its texts

  private final LogTemplate templates;
  // Texts as keys, and no objects of ours: of texts with one hash, which anybody can make, a map of Java makes a tree.
  private Map counts = new HashMap(); // name -> Line
  private final StringBuilder name = new StringBuilder(256);
  private long bytes = 0;
  private Iterator full = null; // lines that are handed out

  LineCounts(LogTemplate templates) {
    this.templates = templates;
  }

  /** A line. Hands out all where they are many. */
  void add(long window, String host, String service, String level, String message) {
    String template = (String) templates.call(message);
    name.setLength(0);
    // no part but the last has a control character
    name.append(window).append('\0').append(host).append('\0').append(service).append('\0').append(level).append('\0').append(template);
    String key = name.toString();
    Line known = (Line) counts.get(key);
    if (known == null) {
      counts.put(key, new Line(window, host, service, level, template, message));
      bytes += OVERHEAD + 2L * (key.length() + host.length() + service.length() + template.length() + message.length());
      if (bytes >= ENOUGH) {
        handOut();
      }
    } else {
      known.count++;
      // whole characters of 16 bits: their order is that of their bytes in UTF-8
      if (message.compareTo(known.least) < 0) {
        bytes += 2L * (message.length() - known.least.length());
        known.least = message;
      }
    }
  }

  /** Begin to hand out all lines. */
  void handOut() {
    full = counts.values().iterator();
    counts = new HashMap();
    bytes = 0;
  }

  boolean hasRow() {
    return full != null && full.hasNext();
  }

  /** The parts of a row, where there is one. */
  Object[] row() {
    Line line = (Line) full.next();
    return new Object[] {Long.valueOf(line.window), line.series(), line.template, Long.valueOf(line.count), line.least};
  }

  /** Lines of one template, on one host, of one service, level and window. */
  private static final class Line {
    final long window;
    final String host;
    final String service;
    final String level;
    final String template;
    String least;
    long count = 1;

    Line(long window, String host, String service, String level, String template, String message) {
      this.window = window;
      this.host = host;
      this.service = service;
      this.level = level;
      this.template = template;
      least = message;
    }

    /** The name of the series, as pipelines/jobs/extract.py makes it. */
    String series() {
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
