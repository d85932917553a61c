//! Days and dates of the Gregorian calendar.

/// Days from 1970-01-01 in the Gregorian calendar, counted in years that begin in March.
#[must_use]
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of `days`: year, month, day.
#[must_use]
pub fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Days of a month.
#[must_use]
pub fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        for (date, day) in
            [((1970, 1, 1), 0), ((1969, 12, 31), -1), ((2000, 3, 1), 11_017), ((2026, 11, 21), 20_778), ((1, 1, 1), -719_162)]
        {
            assert_eq!((days(date.0, date.1, date.2), civil(day)), (day, date));
        }
        assert_eq!([month_days(2024, 2), month_days(1900, 2), month_days(2026, 11)], [29, 28, 30]);
    }

    proptest! {
        #[test]
        fn days_and_back(day in -1_000_000i64..3_000_000) {
            let (year, month, of_month) = civil(day);
            prop_assert_eq!(days(year, month, of_month), day);
            prop_assert!((1..=month_days(year, month)).contains(&of_month));
        }
    }
}
