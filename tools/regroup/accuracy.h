// SPDX-License-Identifier: Apache-2.0
// How far the cost model is from what was measured.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "median.h"
#include "output.h"

namespace regroup::tool {

class Accuracy {
 public:
  void add(double predicted_us, double measured_us) {
    if (predicted_us <= 0 || measured_us <= 0) return;
    errors_.push_back(error(predicted_us, measured_us));
    logarithms_.push_back(std::abs(std::log(predicted_us / measured_us)));
  }

  // Of a single prediction: its distance from the measurement, as a share of it.
  static double error(double predicted_us, double measured_us) {
    return std::abs(predicted_us - measured_us) / measured_us;
  }

  size_t count() const { return errors_.size(); }
  double median_error() const { return median(errors_); }
  // Half of the predictions are right within this factor, up or down.
  double median_factor() const { return std::exp(median(logarithms_)); }

  std::string to_string() const {
    if (count() == 0) return "nothing was measured";
    return fmt::format("median error of {} predictions: {:.0f} %; half of them are right within a factor of {:.2f}",
                       count(), 100 * median_error(), median_factor());
  }

 private:
  std::vector<double> errors_, logarithms_;
};

}  // namespace regroup::tool
