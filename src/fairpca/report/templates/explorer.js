"use strict";
// Moves the picture, the figures and the loadings along the path. All text is set as text.
(() => {
  const source = document.getElementById("path-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const root = document.getElementById("explorer");
  const slider = root.querySelector("input[type=range]");
  const chooser = root.querySelector("select");
  const said = root.querySelector("output");
  const COLOURS = data.colours;
  const SHAPES = ["M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "M0-4L4 3H-4Z", "M-3-3H3V3H-3Z", "M0-4L4 0L0 4L-4 0Z", "M0 4L4-3H-4Z", "M-4-1H-1V-4H1V-1H4V1H1V4H-1V1H-4Z", "M-4-2L-2-4L0-2L2-4L4-2L2 0L4 2L2 4L0 2L-2 4L-4 2L-2 0Z"];
  const SIZE = 300, EDGE = 14;

  const svg = (tag, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    parent.append(node);
    return node;
  };
  const html = (tag, text, parent) => {
    const node = document.createElement(tag);
    node.textContent = text;
    parent.append(node);
    return node;
  };

  // One scale for all pictures, so that a shrinking cloud is seen to shrink.
  const all = [data.plain, ...data.points].flatMap((point) => point.scores.flat().map(Math.abs)).sort((a, b) => a - b);
  const reach = all[Math.floor(0.99 * (all.length - 1))] * 1.1 || 1;
  const place = (x) => SIZE / 2 + (x / reach) * (SIZE / 2 - EDGE);
  const inside = (x) => Math.max(2, Math.min(SIZE - 2, place(x)));

  const panel = (name) => {
    const box = root.querySelector(`[data-panel=${name}] svg`);
    svg("path", { d: `M${SIZE / 2} 0V${SIZE}M0 ${SIZE / 2}H${SIZE}`, class: "axes" }, box);
    return { points: svg("g", {}, box), shapes: svg("g", {}, box) };
  };
  const panels = { plain: panel("plain"), fair: panel("fair") };

  // Two standard deviations: the square root of a symmetric 2 × 2 matrix maps the unit circle.
  const ellipse = ([mx, my, a, b, c]) => {
    const middle = (a + c) / 2, half = Math.hypot((a - c) / 2, b), angle = Math.atan2(2 * b, a - c) / 2;
    const radius = (value) => (2 * Math.sqrt(Math.max(value, 0)) / reach) * (SIZE / 2 - EDGE);
    return { cx: place(mx), cy: SIZE - place(my), rx: radius(middle + half), ry: radius(middle - half),
      transform: `rotate(${(-angle * 180) / Math.PI} ${place(mx)} ${SIZE - place(my)})` };
  };

  const draw = (to, point, attribute, which) => {
    to.points.replaceChildren();
    to.shapes.replaceChildren();
    const places = Object.keys(attribute.groups);
    attribute.codes.forEach((code, row) => {
      const index = places.indexOf(String(code));
      if (index < 0) return;
      svg("path", { d: SHAPES[index], fill: COLOURS[index], "fill-opacity": 0.45,
        transform: `translate(${inside(point.scores[0][row])} ${SIZE - inside(point.scores[1][row])})` }, to.points);
    });
    for (const [code, shape] of Object.entries(point.ellipses[which])) {
      const index = places.indexOf(code), round = ellipse(shape);
      svg("ellipse", { ...round, fill: "none", stroke: COLOURS[index], "stroke-width": 2 }, to.shapes);
      svg("path", { d: SHAPES[index], fill: COLOURS[index], stroke: "#fff", transform: `translate(${round.cx} ${round.cy}) scale(2)` }, to.shapes);
    }
  };

  const legend = (attribute) => {
    const list = root.querySelector(".legend");
    list.replaceChildren();
    Object.values(attribute.groups).forEach((name, index) => {
      const item = html("li", "", list);
      const mark = svg("svg", { width: 14, height: 14, viewBox: "-6 -6 12 12", "aria-hidden": "true" }, item);
      svg("path", { d: SHAPES[index], fill: COLOURS[index] }, mark);
      html("span", ` ${attribute.name}: ${name}`, item);
    });
  };

  const show = () => {
    const point = data.points[slider.value];
    const which = chooser ? Number(chooser.value) : 0;
    const attribute = data.attributes[which];
    draw(panels.plain, data.plain, attribute, which);
    draw(panels.fair, point, attribute, which);
    legend(attribute);
    const words = point.label + (point.chosen ? " (this report)" : "");
    said.textContent = words;
    slider.setAttribute("aria-valuetext", words);
    for (const cell of root.querySelectorAll("[data-figure]")) {
      cell.textContent = point.shown[cell.dataset.figure] ?? "–";
    }
    root.querySelectorAll("[data-loadings] tbody").forEach((body, index) => {
      body.replaceChildren();
      for (const [name, value] of point.loadings[index] ?? []) {
        const row = body.insertRow();
        html("td", name, row);
        html("td", value.toFixed(2).replace("-", "−"), row).className = "n";
      }
    });
  };

  slider.max = data.points.length - 1;
  slider.value = Math.max(0, data.points.findIndex((point) => point.chosen));
  slider.addEventListener("input", show);
  chooser?.addEventListener("change", show);
  root.hidden = false;
  show();
})();
