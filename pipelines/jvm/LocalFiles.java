package kappa;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Files of this machine with checksums, as Hadoop's `LocalFs` has them.
 *
 * <p>Where Hadoop's native library is missing, that one starts a process for many a thing: `chmod` twice for a new file, and
 * `readlink` eight times to rename it, always with a name that there cannot be. That is 60 ms, and a batch makes six files.
 */
public class LocalFiles extends ChecksumFs {
  /** What Hadoop calls for the file system of a scheme. */
  public LocalFiles(URI uri, Configuration settings) throws IOException, URISyntaxException {
    super(new Plain(uri, settings));
  }

  private static class Plain extends DelegateToFileSystem {
    Plain(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(uri, new Quiet(), settings, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public FsServerDefaults getServerDefaults() throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }

  private static class Quiet extends RawLocalFileSystem {
    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return getFileStatus(path); // which is what an answer of `readlink` that is always empty comes to
    }

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String symbols = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
    }
  }
}
