/* Numbers to words as `perfzero.text` writes them: what has two digits there has two digits here. */

const MINUS = '−', NONE = '–';

/** `value` with so many significant digits, never in exponent form, without zeros at its end. */
function plain(value, digits) {
  if (value === 0) return '0';
  const rounded = Number(Math.abs(value).toPrecision(digits));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(rounded)));
  let words = rounded.toFixed(Math.min(decimals, 100));
  if (words.includes('.')) words = words.replace(/0+$/, '').replace(/\.$/, '');
  return (value < 0 ? MINUS : '') + words;
}

function known(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

function percent(share) {
  if (!known(share)) return NONE;
  const size = Math.abs(share) * 100;
  if (size > 0 && size < 0.01) return '< 0.01 %';
  let digits;
  if (size === 0) digits = '0';
  else if (size < 1) digits = plain(size, 1);
  else if (size < 9.95 || (size >= 99 && size < 99.95)) digits = size.toFixed(1).replace(/\.0$/, '');
  else digits = size.toFixed(0);
  return `${share < 0 ? MINUS : ''}${digits} %`;
}

function duration(seconds, digits = 2) {
  if (!known(seconds)) return NONE;
  if (seconds < 0) return MINUS + duration(-seconds, digits);
  if (Math.round(seconds) >= 3600) {
    const minutes = Math.round(seconds / 60);
    return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  }
  if (seconds >= 100) {
    const whole = Math.round(seconds);
    return whole % 60 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${whole / 60} min`;
  }
  if (seconds === 0) return '0 s';
  const units = [[1, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];
  const [scale, prefix] = units.find(([unit]) => seconds >= unit * (1 - 0.5 * 10 ** -digits)) ?? units[3];
  return `${plain(seconds / scale, digits)} ${prefix}s`;
}

/** An amount in its base unit: 1.9e12, 'B/s' is "1.9 TB/s". */
function amount(value, unit) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  const prefixes = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  const [scale, prefix] = prefixes.find(([limit]) => size >= limit * 0.9995) ?? [1, ''];
  const digits = size / scale < 99.5 ? 2 : 3;
  return `${value < 0 ? MINUS : ''}${plain(size / scale, digits)} ${prefix}${unit}`.trim();
}

/** A number for an axis or a legend: three digits. */
function figure(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  if (size > 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

/** A moment of the recording in seconds, as finely as `span` seconds in sight ask for. */
function moment(seconds, span) {
  const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(Math.max(span, 1e-6)))));
  return `${seconds.toFixed(digits)} s`;
}
