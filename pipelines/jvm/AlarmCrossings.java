package kappa;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Points and lines (series, event time, value, template; times in ms) -> those that raise an alarm: a value beyond a bound, a line of
 * a level or template that its service never had.
 *
 * <p>A row is handed on as soon as it is read. What is refused has no series.
 */
public class AlarmCrossings implements MapPartitionsFunction {
  private static final int RATE_WINDOWS = 10; // the longest time that a counter's rate is of

  private final String topic;
  private final long window;
  private final long mostBehind;

  /** The table of a topic; the length of a window, and how far the exact lane may be behind, in ms. */
  public AlarmCrossings(String topic, long window, long mostBehind) {
    this.topic = topic;
    this.window = window;
    this.mostBehind = mostBehind;
  }

  @Override
  public Iterator call(Iterator records) {
    return new Raised(this, AlarmBounds.of(topic), records);
  }

  static class Raised implements Iterator {
    private final AlarmCrossings own;
    private final AlarmBounds table;
    private final Iterator records;
    private Row raised;

    Raised(AlarmCrossings own, AlarmBounds table, Iterator records) {
      this.own = own;
      this.table = table;
      this.records = records;
    }

    @Override
    public boolean hasNext() {
      while (raised == null && records.hasNext()) {
        Row row = (Row) records.next();
        table.saw(1L);
        if (!row.isNullAt(0)) {
          raised = row.isNullAt(2) ? ofLine(row) : ofPoint(row);
        }
      }
      return raised != null;
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      Row found = raised;
      raised = null;
      return found;
    }

    private Row ofPoint(Row row) {
      String series = row.getString(0);
      AlarmBound bound = table.find(series);
      if (bound == null) {
        return null;
      }
      double value = row.getDouble(2);
      if (series.startsWith("counter/")) {
        value = bound.rate(value, row.getLong(1), RATE_WINDOWS * own.window);
      }
      return bound.isCrossedBy(value) ? alarm(series, row, Double.valueOf(value), bound) : null;
    }

    /** A line is of `template/HOST/SERVICE/LEVEL/ID`; one of a level that its service never had is of `logs/HOST/SERVICE/LEVEL`. */
    private Row ofLine(Row row) {
      String series = row.getString(0);
      int id = series.lastIndexOf('/'), level = series.lastIndexOf('/', id - 1);
      AlarmBound bound = level < 0 ? null : table.find(series.substring(0, level)); // a heartbeat has no level
      if (bound == null || bound.known == null) {
        return null;
      }
      if (!bound.known.hasLevel(series.substring(level + 1, id))) {
        return alarm("logs" + series.substring(series.indexOf('/'), id), row, null, bound);
      }
      String template = row.isNullAt(3) ? null : row.getString(3);
      return bound.known.hasTemplate(series.substring(id + 1), template) ? null : alarm(series, row, null, bound);
    }

    private Row alarm(String series, Row row, Double value, AlarmBound bound) {
      long windowEnd = (Math.floorDiv(row.getLong(1), own.window) + 1) * own.window;
      int host = series.indexOf('/') + 1;
      if (!table.mayRaise(series, series.substring(host, series.indexOf('/', host)), windowEnd, own.mostBehind)) {
        return null;
      }
      boolean low = value != null && value.doubleValue() < bound.lower;
      boolean high = value != null && value.doubleValue() > bound.upper;
      return RowFactory.create(new Object[] {series, Long.valueOf(windowEnd), Long.valueOf(row.getLong(1)), value,
          low ? Double.valueOf(bound.lower) : null, high ? Double.valueOf(bound.upper) : null, known(bound.typical),
          known(bound.chance), Long.valueOf(bound.windowEnd), row.isNullAt(3) ? null : row.getString(3)});
    }

    private static Double known(double number) {
      return number != number ? null : Double.valueOf(number);
    }
  }
}
