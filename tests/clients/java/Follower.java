// What both clients in Java share as followers of tests/clients/follow.py, which says what is asked and answered.

import java.io.BufferedReader;
import java.io.InputStreamReader;

abstract class Follower {
  /** What is done, with whatever exception of the client. */
  interface Deed {
    Object done() throws Exception;
  }

  abstract void answers() throws Exception;

  abstract void late() throws Exception;

  abstract void follow() throws Exception;

  abstract void held() throws Exception;

  static void say(Object... words) {
    var line = new StringBuilder();
    for (Object word : words) {
      line.append(line.length() == 0 ? "" : " ").append(word);
    }
    System.out.println(line.toString().replace('\n', ' '));
  }

  static void check(String what, boolean held, Object found) {
    say(held ? "ok" : "FAILED", held ? what : what + ": " + found);
  }

  /** Ends the program, with whatever threads the client has left. */
  void run() {
    int code = 1;
    try {
      serve();
      code = 0;
    } catch (Exception error) {
      error.printStackTrace();
    } finally {
      System.exit(code);
    }
  }

  private void serve() throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in));
    for (String word = input.readLine(); word != null; word = input.readLine()) {
      switch (word) {
        case "answers" -> answers();
        case "late" -> late();
        case "follow" -> follow();
        case "held" -> held();
        default -> throw new IllegalArgumentException(word);
      }
      say("done");
    }
  }
}
