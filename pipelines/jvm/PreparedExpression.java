package kappa;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;

/**
 * An expression of some columns. For Spark's planner it is a function without contents, and on its way to a task an array of bytes: a thread
 * reads these back when it first has a row for it.
 */
public class PreparedExpression implements ScalarFunction, Serializable {
  private static final ThreadLocal MADE = new ThreadLocal(); // id -> expression: evaluating one changes it

  private final String id = UUID.randomUUID().toString();
  private final byte[] body;
  private final DataType[] inputs;
  private final DataType result;

  /** `body` is optimized, and bound to columns of the types `inputs`. */
  public PreparedExpression(Expression body, DataType[] inputs) throws IOException {
    this.body = bytesOf(body);
    this.inputs = inputs;
    this.result = body.dataType();
  }

  @Override
  public String name() {
    return "prepared";
  }

  @Override
  public DataType[] inputTypes() {
    return inputs;
  }

  @Override
  public DataType resultType() {
    return result;
  }

  @Override
  public Object produceResult(InternalRow columns) {
    Map made = (Map) MADE.get();
    if (made == null) {
      made = new HashMap();
      MADE.set(made);
    }
    Expression expression = (Expression) made.get(id);
    if (expression == null) {
      expression = made();
      made.put(id, expression);
    }
    return expression.eval(columns);
  }

  private static byte[] bytesOf(Object object) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    ObjectOutputStream out = new ObjectOutputStream(bytes);
    out.writeObject(object);
    out.close();
    return bytes.toByteArray();
  }

  private Expression made() {
    try {
      ObjectInputStream in = new ClassesOfTask(body);
      return (Expression) in.readObject();
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible); // its bytes are in memory
    } catch (ClassNotFoundException foreign) {
      throw new IllegalStateException(foreign);
    }
  }

  /** Finds the classes that the task has. */
  private static final class ClassesOfTask extends ObjectInputStream {
    ClassesOfTask(byte[] bytes) throws IOException {
      super(new ByteArrayInputStream(bytes));
    }

    @Override
    protected Class resolveClass(ObjectStreamClass described) throws IOException, ClassNotFoundException {
      try {
        return Class.forName(described.getName(), false, Thread.currentThread().getContextClassLoader());
      } catch (ClassNotFoundException primitive) {
        return super.resolveClass(described);
      }
    }
  }
}
