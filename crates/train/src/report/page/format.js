// Numbers as texts.

const MISSING = "–";

function grouped(value) {
  return Math.round(value).toLocaleString("en-US");
}

// Formats a value with about `digits` significant digits: 1,234, 0.0312, 3.12e-5.
function short(value, digits = 4) {
  if (value == null || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-4 || size >= 1e7) return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e");
  if (size >= 1000) return grouped(value);
  const text = value.toPrecision(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// Returns the label of a tick. It has an exponent between 0 and 0.001, and on a logarithmic axis
// also above 9,999.
function tickLabel(value, isLog) {
  const size = Math.abs(value);
  const isPower = size !== 0 && (size < 0.9995e-3 || (isLog && size > 9999.5));
  return isPower ? String(Number(value.toPrecision(4)).toExponential()).replace("e+", "e") : short(value);
}

// Returns a share from 0 to 1, rounded down so that only a perfect score reads as 1.
function share(value) {
  if (value == null) return MISSING;
  return (Math.floor(value * 1e4 + 1e-7) / 1e4).toFixed(4);
}

function score({ value, kind }) {
  if (kind === "share") return share(value);
  return kind === "points" ? value.toFixed(2) : short(value);
}

function duration(seconds) {
  if (seconds == null) return MISSING;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Formats a number of parameters, such as 122,520 or 65.1 M.
function count(value) {
  if (value == null) return MISSING;
  return value < 1e6 ? grouped(value) : `${short(value / 1e6, 3)} M`;
}
