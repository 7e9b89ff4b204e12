"use strict";
// Numbers where the mouse or a finger is. Without this script all is there but these.
(() => {
  const tip = document.getElementById("tip");
  const NS = "http://www.w3.org/2000/svg";
  let last = null;

  const places = (d) => [...d.matchAll(/[ML]([-\d.]+),([-\d.]+)/g)].map((m) => [Number(m[1]), Number(m[2])]);
  const told = (text) => text.split("|").map((word) => word.replaceAll("_", " "));

  const read = (svg) => [...svg.querySelectorAll("g.series")].map((g) => ({
    g, label: g.dataset.label, values: g.dataset.v ? g.dataset.v.split(" ").map(told) : [],
    at: places(g.querySelector(".spots, .curve, .points").getAttribute("d")),
  })).filter((series) => series.at.length > 0);

  const inside = (svg, event) => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    return [(event.clientX - box.left) / box.width * view.width, (event.clientY - box.top) / box.height * view.height];
  };

  const nearest = (series, x, y, isCloud) => {
    let best = 0, distance = Infinity;
    series.at.forEach(([a, b], k) => {
      const d = isCloud ? (a - x) ** 2 + (b - y) ** 2 : Math.abs(a - x);
      if (d < distance) { best = k; distance = d; }
    });
    return best;
  };

  const show = (event, lines) => {
    tip.replaceChildren(...lines.map((line) => {
      const row = document.createElement("div");
      row.textContent = line;
      return row;
    }));
    tip.classList.add("shown");
    const wide = document.documentElement.clientWidth, half = tip.offsetWidth + 12;
    const left = event.clientX + 14 + half > wide ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14;
    tip.style.left = `${Math.max(4, left) + window.scrollX}px`;
    tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 10) + window.scrollY}px`;
  };

  const hide = () => {
    tip.classList.remove("shown");
    if (last) {
      last.querySelectorAll(".dot").forEach((dot) => dot.remove());
      const cross = last.querySelector(".cross");
      if (cross) cross.style.visibility = "hidden";
      last = null;
    }
  };

  const onChart = (svg) => {
    const all = read(svg), isCloud = "cloud" in svg.dataset;
    if (!all.length) return;
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = inside(svg, event);
      hide();
      last = svg;
      const lines = [];
      let where = 0;
      all.forEach((series) => {
        const k = nearest(series, x, y, isCloud), [a, b] = series.at[k], [vx, vy] = series.values[k];
        if (!lines.length) { lines.push(`${svg.dataset.x.replace(/ \(.*/, "")} ${vx}`); where = a; }
        // Of another curve the nearest point may be elsewhere.
        lines.push(`${series.label}: ${vy}${Math.abs(a - where) > 3 ? ` (at ${vx})` : ""}`);
        const dot = document.createElementNS(NS, "circle");
        dot.setAttribute("class", "dot");
        dot.setAttribute("r", "4");
        dot.setAttribute("cx", a);
        dot.setAttribute("cy", b);
        series.g.append(dot);
      });
      const cross = svg.querySelector(".cross");
      if (cross && !isCloud) {
        cross.setAttribute("x1", where);
        cross.setAttribute("x2", where);
        cross.style.visibility = "visible";
      }
      show(event, lines);
    });
  };

  const onMatrix = (svg) => {
    const [left, top, wide, high] = svg.dataset.box.split(" ").map(Number);
    const [rows, columns, values] = [svg.dataset.rows, svg.dataset.columns, svg.dataset.values].map((v) => v.split("|"));
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = inside(svg, event);
      const column = Math.floor((x - left) / wide * columns.length), row = Math.floor((y - top) / high * rows.length);
      hide();
      if (column < 0 || row < 0 || column >= columns.length || row >= rows.length) return;
      const words = { a: rows[row], b: columns[column], v: values[row * columns.length + column] };
      show(event, [svg.dataset.words.replace(/\{(\w)\}/g, (_, key) => words[key])]);
    });
  };

  document.querySelectorAll("svg.chart").forEach((svg) => {
    (svg.classList.contains("matrix") ? onMatrix : onChart)(svg);
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointercancel", hide);
  });
  window.addEventListener("scroll", hide, { passive: true });
})();
