// An answer counts only once what it would answer has stood still for a moment: a
// click that was on its way to something else, a double click, or a key that was
// pressed before the eye could follow, answers nothing.

export const SETTLE_MS = 500;

export class Settle {
  constructor(now = () => performance.now()) {
    this.now = now;
    this.sight = "";
    this.since = now();
  }

  // look says what an answer would refer to; "" is nothing.
  look(sight) {
    if (sight !== this.sight) {
      this.sight = sight;
      this.since = this.now();
    }
  }

  // restart begins the moment anew: the page has moved, or has only now come to the eye.
  restart() { this.since = this.now(); }

  ready() { return this.sight !== "" && this.now() - this.since >= SETTLE_MS; }

  // accept reports whether an answer counts. One that came too soon begins the moment
  // anew, so that a row of them never gets through.
  accept() {
    if (this.ready()) return true;
    this.restart();
    return false;
  }
}
