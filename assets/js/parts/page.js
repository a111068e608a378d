// What the views of one page share.

/** Events between the views: "model", "runs", "chosen", "snapshots", "status". */
export const bus = new EventTarget();
/** Messages between the browser tabs of one visitor: the visitor's token, after a run started or another model was chosen. */
export const tabs = new BroadcastChannel("balcony");
/** The visitor's token, once it is known. */
export const visitor = { token: null };

/** Keep a value of a visitor while this browser tab is open, so that a reload finds it; not where the browser forbids it. */
export function keep(name, owner, value) {
  try { sessionStorage.setItem(`balcony-${name}`, JSON.stringify([owner, value])); } catch (error) { console.warn(error); }
}

/** What was kept under that name for this visitor, else null. */
export function kept(name, owner) {
  try {
    const [whose, value] = JSON.parse(sessionStorage.getItem(`balcony-${name}`)) || [];
    return whose === owner ? value : null;
  } catch (error) {
    console.warn(error);
    return null;
  }
}

/** A function that runs `work` once at a time: of the calls that come meanwhile only the last is done. */
export function latest(work) {
  let waiting = null;
  let busy = false;
  return async function (...wanted) {
    waiting = wanted;
    if (busy) return;
    busy = true;
    try {
      while (waiting) {
        const now = waiting;
        waiting = null;
        await work(...now);
      }
    } finally {
      busy = false;
    }
  };
}

/**
 * Call back when the model the page looks at is another one and `root` is in the open tab: at once when the person
 * chose it, at most once a second while a model learns. rest: milliseconds that the choice must last first, for
 * what is slow and stands below the picture that the person is looking at.
 */
export function follow(root, callback, rest = 0) {
  let last = -Infinity;
  let timer = 0;
  bus.addEventListener("model", ({ detail }) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (root.offsetParent === null) return;
      last = performance.now();
      callback();
    }, detail.chosen ? rest : Math.max(0, last + 1000 - performance.now()));
  });
}
