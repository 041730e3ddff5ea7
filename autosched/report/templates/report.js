"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Told apart by people who see few colours: by lightness, and by dashes and shapes besides.
  const light_colors = {
    ink: "#18202a", muted: "#6b7683", line: "#e3e8ee", card: "#ffffff",
    best: "#0a5fb4", trial: "#5d9fdb", failed: "#c4301c", winner: "#e08600", second: "#7a45c4",
    peak: "#b3245c", level0: "#0a5fb4", level1: "#0f8f7e", level2: "#7a45c4", level3: "#a35a00",
    series0: "#0a5fb4", series1: "#d96f00", series2: "#0f8f7e", series3: "#b3245c",
    series4: "#0a5fb4", series5: "#d96f00", series6: "#0f8f7e", series7: "#b3245c",
  };
  const dark_colors = {
    ink: "#e5eaf0", muted: "#8995a3", line: "#2a3441", card: "#161d26",
    best: "#66b0ff", trial: "#4a8dd0", failed: "#ff7866", winner: "#ffb43d", second: "#bd95ff",
    peak: "#ff7aa8", level0: "#66b0ff", level1: "#3fd0b8", level2: "#bd95ff", level3: "#e8a04c",
    series0: "#66b0ff", series1: "#ff9f45", series2: "#3fd0b8", series3: "#ff7aa8",
    series4: "#66b0ff", series5: "#ff9f45", series6: "#3fd0b8", series7: "#ff7aa8",
  };

  function colored(value, colors) {
    if (typeof value === "string" && value.startsWith("@")) return colors[value.slice(1)] ?? value;
    if (Array.isArray(value)) return value.map((each) => colored(each, colors));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, colored(v, colors)]));
    }
    return value;
  }

  function axis(own, colors, narrow) {
    const title = { ...own.title, font: { size: 12, color: colors.muted }, standoff: narrow ? 6 : 10 };
    const ticks = own.tickvals && narrow && own.tickvals.length > 6
      ? { tickvals: own.tickvals.filter((_, k) => k % 2 === 0), ticktext: own.ticktext.filter((_, k) => k % 2 === 0) }
      : {};
    return {
      gridcolor: colors.line, linecolor: colors.line, tickcolor: colors.line, zeroline: false,
      ticks: "outside", ticklen: 4, automargin: true, separatethousands: true, exponentformat: "none",
      ...(narrow && !own.nticks && own.type !== "category" ? { nticks: 6 } : {}), ...own, ...ticks, title,
    };
  }

  // Numbers at the ends of bars need room, which on a phone is a larger part of the chart.
  function withRoom(xaxis, trace, width) {
    const longest = (texts) => Math.max(...texts.map((text) => String(text).length));
    const bars = width - 7 * longest(trace.y) - 40;
    const room = Math.min(0.6, (7 * longest(trace.text) + 12) / bars);
    return { ...xaxis, range: [0, Math.max(...trace.x) / (1 - room)] };
  }

  function draw(place) {
    const colors = dark.matches ? dark_colors : light_colors;
    const chart = charts[place.id];
    const narrow = place.clientWidth < 440;
    const { xaxis: plain, yaxis, ...own } = colored(chart.layout, colors);
    const bars = chart.traces[0].type === "bar";
    const xaxis = bars ? withRoom(plain, chart.traces[0], place.clientWidth) : plain;
    const height = chart.height + (narrow && !bars ? 17 * Math.max(0, chart.traces.length - 3) : 0);
    place.style.height = `${height}px`;
    const layout = {
      height, autosize: true, hovermode: "closest",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      margin: { l: 12, r: 14, t: 6, b: 12, pad: 0 },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colors.ink },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: colors.card, bordercolor: colors.line, font: { color: colors.ink, size: 12 } },
      showlegend: chart.traces.length > 1,
      legend: {
        orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom",
        bgcolor: "rgba(0,0,0,0)", font: { size: 12 }, itemclick: "toggle",
      },
      ...own, xaxis: axis(xaxis, colors, narrow), yaxis: axis(yaxis, colors, narrow),
    };
    const config = {
      responsive: true, displaylogo: false, displayModeBar: false, doubleClick: "reset",
      plotlyServerURL: "", showTips: false,
    };
    return Plotly.react(place, colored(chart.traces, colors), layout, config);
  }

  // Charts of a section that is shut are drawn when it is opened.
  async function drawAll() {
    const now = `${dark.matches ? "dark" : "light"} ${innerWidth}`;
    for (const place of document.querySelectorAll(".plot")) {
      if (place.closest("details:not([open])") || place.dataset.drawn === now) continue;
      place.dataset.drawn = now;
      await draw(place);
    }
    document.documentElement.dataset.drawn = now;
  }

  async function library() {
    const packed = document.getElementById("library");
    const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    packed.remove();
    document.head.append(script);
  }

  function fail(error) {
    const problem = document.getElementById("problem");
    problem.textContent = "The charts cannot be drawn by this browser; one of 2023 or later can. " + error;
    problem.hidden = false;
    document.documentElement.dataset.drawn = "failed";
  }

  async function start() {
    if (typeof DecompressionStream === "undefined") throw new Error("It has no DecompressionStream.");
    await library();
    await drawAll();
    dark.addEventListener("change", () => drawAll().catch(fail));
    for (const run of document.querySelectorAll("details.run")) {
      run.addEventListener("toggle", () => run.open && drawAll().catch(fail));
    }
    let width = innerWidth;
    let waiting = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => drawAll().catch(fail), 150);
    });
  }

  start().catch(fail);
})();
