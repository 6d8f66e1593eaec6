package kappa;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Rows of window (end, ms), block and refused -> of each series in a block its window, name, number of points, mean, sum of squared
 * distances from it, least, largest and last value; and rows of what was refused.
 */
public class SeriesRows implements MapPartitionsFunction {
  private static final int REFUSED = 8;

  @Override
  public Iterator call(Iterator rows) {
    return new Unpacked(rows);
  }

  static class Unpacked implements Iterator {
    private final Iterator rows;
    private final long[] numbers = new long[PointNumbers.SIZE];
    private Object window;
    private SumsCursor cursor;
    private Row next;
    private int made = 0;

    Unpacked(Iterator rows) {
      this.rows = rows;
    }

    @Override
    public boolean hasNext() {
      while (next == null && (cursor != null || rows.hasNext())) {
        if (cursor == null) {
          begin((Row) rows.next());
        } else if (cursor.next()) {
          next = series();
        } else {
          cursor = null;
        }
      }
      return next != null;
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      Row found = next;
      next = null;
      return found;
    }

    private void begin(Row row) {
      window = row.get(0);
      if (!row.isNullAt(1)) {
        cursor = new SumsCursor((byte[]) row.get(1));
      } else {
        Object[] refused = new Object[REFUSED + 1];
        refused[0] = window;
        refused[REFUSED] = row.get(2);
        next = RowFactory.create(refused);
      }
    }

    private Row series() {
      TaskProgress.rows(++made);
      PointNumbers.clear(numbers, 0);
      cursor.addTo(numbers);
      Object[] row = new Object[REFUSED + 1];
      row[0] = window;
      row[1] = cursor.name();
      row[2] = Long.valueOf(numbers[PointNumbers.COUNT]);
      row[3] = Double.valueOf(PointNumbers.mean(numbers));
      row[4] = Double.valueOf(PointNumbers.distances(numbers));
      row[5] = Double.valueOf(PointNumbers.number(numbers, PointNumbers.LEAST));
      row[6] = Double.valueOf(PointNumbers.number(numbers, PointNumbers.MOST));
      row[7] = Double.valueOf(PointNumbers.number(numbers, PointNumbers.LAST));
      return RowFactory.create(row);
    }
  }
}
