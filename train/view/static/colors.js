// Colours. Runs have eight colours and dash patterns that readers with any form of colour
// blindness can tell apart; numbers have a scale from orange (negative) over the
// background (0) to blue (positive), or from the background to blue.

export const dashes = ['', '6 3', '2 3', '8 3 2 3', '10 4', '4 2 1 2', '1 2', '12 3 3 3'];

// slot is the class of the colour of the n-th run.
export function slot(n) {
  return 'c' + (n % 8);
}

const light = { zero: [255, 255, 255], plus: [86, 160, 214], minus: [240, 146, 74] };
const dark = { zero: [23, 28, 35], plus: [26, 96, 160], minus: [160, 70, 16] };

function isDark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

// scale maps numbers to colours of the background of texts. limit is the number with the
// full colour.
export function scale(limit) {
  const ends = isDark() ? dark : light;
  return (x) => {
    if (x === null || x === undefined || Number.isNaN(x)) return '';
    const share = limit > 0 ? Math.max(-1, Math.min(1, x / limit)) : 0;
    const end = share < 0 ? ends.minus : ends.plus;
    const mixed = ends.zero.map((z, i) => Math.round(z + (end[i] - z) * Math.sqrt(Math.abs(share))));
    return `rgb(${mixed.join(' ')})`;
  };
}
