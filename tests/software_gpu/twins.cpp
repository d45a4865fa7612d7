#include "tests/software_gpu/twins.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <vector>

#include "tests/software_gpu/software_gpu.h"

namespace software_gpu {
namespace {

// Heads in float32, [B, H, T, D], keys and values repeated for the queries that share them.
struct Problem {
  at::Tensor q, k, v;
  std::int64_t group = 1;  // queries for each key
  double scale = 1;
  bool is_causal = false;
  std::int64_t window = -1;  // how far back a query sees; -1: to the beginning
  at::Tensor bias = {};      // added to the scores

  Problem(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::optional<double> asked)
      : q(query.to(at::kFloat)),
        group(query.size(1) / key.size(1)),
        scale(asked.value_or(1 / std::sqrt(static_cast<double>(query.size(3))))) {
    k = key.to(at::kFloat).repeat_interleave(group, 1);
    v = value.to(at::kFloat).repeat_interleave(group, 1);
  }

  at::Tensor scores() const {
    at::Tensor all = at::matmul(q, k.mT()).mul(scale);
    if (bias.defined()) all = all + bias.to(at::kFloat);
    const at::Tensor seen = at::ones({q.size(2), k.size(2)}, at::kBool);
    if (is_causal) seen.tril_();
    if (window >= 0) seen.triu_(-window);
    return all.masked_fill(seen.logical_not(), -INFINITY);
  }
};

struct Gradients {
  at::Tensor q, k, v;
};

Gradients gradients_of(const Problem& p, const at::Tensor& upstream) {
  const at::Tensor dout = upstream.to(at::kFloat), probabilities = at::softmax(p.scores(), -1);
  const at::Tensor dprobabilities = at::matmul(dout, p.v.mT());
  const at::Tensor rows = dprobabilities.mul(probabilities).sum(-1, true);
  const at::Tensor dscores = probabilities.mul(dprobabilities.sub(rows)).mul(p.scale);
  const auto shared = [&](const at::Tensor& gradient) { return gradient.unflatten(1, {-1, p.group}).sum(2); };
  return {at::matmul(dscores, p.k), shared(at::matmul(dscores.mT(), p.q)),
          shared(at::matmul(probabilities.mT(), dout))};
}

// The arguments of an operation by their place.
class Arguments {
 public:
  explicit Arguments(torch::jit::Stack& stack) : values_(stack) { stack.clear(); }
  const at::Tensor& tensor(std::size_t i) const { return values_[i].toTensor(); }
  bool has_tensor(std::size_t i) const { return values_[i].isTensor() && tensor(i).defined(); }
  bool flag(std::size_t i) const { return values_[i].toBool(); }
  double number(std::size_t i) const { return values_[i].toDouble(); }
  std::int64_t count(std::size_t i) const { return values_[i].toInt(); }
  std::optional<double> scale(std::size_t i) const {
    return values_[i].isNone() ? std::nullopt : std::optional<double>(values_[i].toDouble());
  }
  std::int64_t window(std::size_t i) const { return values_[i].isNone() ? -1 : values_[i].toInt(); }
  void drops(std::size_t i) const {
    if (values_[i].toDouble() > 0) software_gpu::count("attention without its dropout");
  }

 private:
  std::vector<c10::IValue> values_;
};

void leave(torch::jit::Stack& stack, const std::vector<at::Tensor>& results, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) stack.emplace_back(i < results.size() ? results[i] : at::Tensor());
}

void forward(torch::jit::Stack& stack, const Problem& problem, bool heads_last, std::size_t count,
             bool with_logsumexp = true) {
  const at::Tensor scores = problem.scores(), out = at::matmul(at::softmax(scores, -1), problem.v);
  leave(stack, {heads_last ? out.transpose(1, 2) : out, with_logsumexp ? scores.logsumexp(-1) : at::Tensor()}, count);
}

// Of the gradient of the norm, x, the extents of a row, 1 / rms of each row, and the weight, which may be undefined.
void rms_norm_backward(torch::jit::Stack& stack, const Arguments& a) {
  const std::int64_t rows = a.tensor(3).numel();
  const at::Tensor rstd = a.tensor(3).to(at::kFloat).reshape({rows, 1});
  const at::Tensor x = a.tensor(1).to(at::kFloat).reshape({rows, -1}).mul(rstd);
  at::Tensor dout = a.tensor(0).to(at::kFloat).reshape({rows, -1}), dweight;
  if (a.has_tensor(4)) {
    dweight = dout.mul(x).sum(0).view_as(a.tensor(4));
    dout = dout.mul(a.tensor(4).to(at::kFloat).flatten());
  }
  const at::Tensor dx = dout.sub(x.mul(dout.mul(x).mean(1, true))).mul(rstd);
  leave(stack, {dx.view_as(a.tensor(1)), dweight}, 2);
}

}  // namespace

bool compute_twin(const std::string& name, torch::jit::Stack& stack) {
  const auto heads = [](const at::Tensor& of_tokens) { return of_tokens.transpose(1, 2); };  // [B, T, H, D]
  if (name == "aten::_scaled_dot_product_flash_attention") {
    const Arguments a(stack);
    Problem problem(a.tensor(0), a.tensor(1), a.tensor(2), a.scale(6));
    problem.is_causal = a.flag(4);
    a.drops(3);
    forward(stack, problem, false, 9);
  } else if (name == "aten::_flash_attention_forward") {
    const Arguments a(stack);
    Problem problem(heads(a.tensor(0)), heads(a.tensor(1)), heads(a.tensor(2)), a.scale(10));
    problem.is_causal = a.flag(8);
    problem.window = a.window(11);
    a.drops(7);
    forward(stack, problem, true, 5);
  } else if (name == "aten::_scaled_dot_product_flash_attention_backward") {
    const Arguments a(stack);
    Problem problem(a.tensor(1), a.tensor(2), a.tensor(3), a.scale(14));
    problem.is_causal = a.flag(11);
    const Gradients d = gradients_of(problem, a.tensor(0));
    leave(stack, {d.q, d.k, d.v}, 3);
  } else if (name == "aten::_flash_attention_backward") {
    const Arguments a(stack);
    Problem problem(heads(a.tensor(1)), heads(a.tensor(2)), heads(a.tensor(3)), a.scale(14));
    problem.is_causal = a.flag(11);
    problem.window = a.window(15);
    const Gradients d = gradients_of(problem, heads(a.tensor(0)));
    leave(stack, {heads(d.q), heads(d.k), heads(d.v)}, 3);
  } else if (name == "aten::_scaled_dot_product_efficient_attention") {
    const Arguments a(stack);
    Problem problem(a.tensor(0), a.tensor(1), a.tensor(2), a.scale(7));
    problem.is_causal = a.flag(6);
    if (a.has_tensor(3)) problem.bias = a.tensor(3);
    a.drops(5);
    forward(stack, problem, false, 4, a.flag(4));
  } else if (name == "aten::_scaled_dot_product_efficient_attention_backward") {
    const Arguments a(stack);
    Problem problem(a.tensor(1), a.tensor(2), a.tensor(3), a.scale(12));
    problem.is_causal = a.flag(11);
    if (a.has_tensor(4)) problem.bias = a.tensor(4);
    const Gradients d = gradients_of(problem, a.tensor(0));
    leave(stack, {d.q, d.k, d.v}, 4);
  } else if (name == "aten::_fused_rms_norm_backward") {
    const Arguments a(stack);
    rms_norm_backward(stack, a);
  } else {
    return false;
  }
  return true;
}

bool call_instead(const std::string& name, torch::jit::Stack& stack) {
  if (name == "aten::_scaled_dot_product_cudnn_attention") {
    const Arguments in(stack);
    if (in.has_tensor(3)) complain("cuDNN's attention with a bias");
    const auto [out, logsumexp, queries, keys, longest_query, longest_key, random, more_random, mask] =
        at::_scaled_dot_product_flash_attention(in.tensor(0), in.tensor(1), in.tensor(2), in.number(5), in.flag(6),
                                                false, in.scale(8));
    for (const at::Tensor& each : {out, logsumexp, queries, keys}) stack.emplace_back(each);
    stack.emplace_back(longest_query);
    stack.emplace_back(longest_key);
    for (const at::Tensor& each : {random, more_random, mask}) stack.emplace_back(each);
    return true;
  }
  if (name == "aten::_scaled_dot_product_cudnn_attention_backward") {
    const Arguments in(stack);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        in.tensor(0), in.tensor(1), in.tensor(2), in.tensor(3), in.tensor(4), in.tensor(5), in.tensor(9), in.tensor(10),
        in.count(11), in.count(12), in.number(13), in.flag(14), in.tensor(6), in.tensor(7), in.scale(15));
    for (const at::Tensor& each : {dq, dk, dv}) stack.emplace_back(each);
    return true;
  }
  return false;
}

}  // namespace software_gpu
