// Measures a page from within: widths, tiny and cut-off text, brightness of the text.
(async () => {
  const SMALLEST_PX = 9;
  await document.fonts.ready;
  await new Promise((done) => setTimeout(done, 50));
  const root = document.documentElement;
  const client = root.clientWidth;

  const name = (element) => {
    const path = element.tagName.toLowerCase() + (element.id ? `#${element.id}` : "");
    const classes = element.getAttribute("class");
    return classes ? `${path}.${classes.trim().replace(/\s+/g, ".")}` : path;
  };
  // Paper does not scroll: there, a box that would is cut off like any other.
  const onPaper = matchMedia("print").matches;
  const scrollsByItself = (element) => {
    if (onPaper) return false;
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible") return true;
    }
    return false;
  };
  const wide = [];
  for (const element of document.body.querySelectorAll("*")) {
    if (element.ownerSVGElement) continue;
    const right = element.getBoundingClientRect().right;
    if (right > client + 0.5 && !scrollsByItself(element)) {
      wide.push(`${name(element)} ends at ${Math.round(right)} px`);
    }
  }

  const small = [];
  const cutOff = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const element = text.parentElement;
    const unseen = ["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "title", "desc"];
    if (!text.data.trim() || unseen.includes(element.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const style = getComputedStyle(element);
    if (range.getClientRects().length === 0 || style.visibility !== "visible") continue;
    const drawing = element.ownerSVGElement;
    let scale = 1;
    if (drawing) {
      const matrix = element.getScreenCTM();
      scale = Math.hypot(matrix.a, matrix.b);
      const box = range.getBoundingClientRect();
      const frame = drawing.getBoundingClientRect();
      const beyond = Math.max(
        frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom);
      const clips = getComputedStyle(drawing).overflow !== "visible";
      if (clips && beyond > 1.5) {
        cutOff.push(`"${text.data.trim().slice(0, 30)}" ends ${Math.round(beyond)} px outside`);
      }
    }
    const size = parseFloat(style.fontSize) * scale;
    if (size < SMALLEST_PX - 0.01) {
      small.push(`"${text.data.trim().slice(0, 30)}" in ${name(element)} has ${size.toFixed(1)} px`);
    }
  }

  const [red, green, blue] = getComputedStyle(document.body).color.match(/[\d.]+/g).map(Number);
  return {
    client_px: client,
    scroll_px: root.scrollWidth,
    wide,
    small,
    cut_off: cutOff,
    text_brightness: (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255,
  };
})()
